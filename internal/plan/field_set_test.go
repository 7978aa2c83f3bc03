package plan

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A merge with the field set of what was applied has the same result as one with the values, as
// long as the desired object is the same.
func TestFieldSetIsEnoughForAMerge(t *testing.T) {
	seeded(t, 3000, func(t *testing.T, g generator) {
		desired := g.object(4)
		observed := g.objectLike(desired)
		whole := merger{keys: object.ChildKeys}.objects(observed, desired, desired)
		outlined := merger{keys: object.ChildKeys, valuesOmitted: true}.objects(observed, objectFieldSet(desired, false), desired)
		if fieldPath := object.FirstDifference(whole, outlined); fieldPath != "" {
			t.Errorf("%s differs\nobserved, desired: %s\nwhole:    %s\noutlined: %s", fieldPath,
				jsonOf(t, []any{observed, desired}), jsonOf(t, whole), jsonOf(t, outlined))
		}
	})
}

func TestMergeByFieldSetIsIdempotent(t *testing.T) {
	seeded(t, 3000, func(t *testing.T, g generator) {
		desired := g.object(4)
		checkIdempotentByFieldSet(t, g.objectLike(desired), g.objectLike(desired), desired)
	})
}

func checkIdempotentByFieldSet(t *testing.T, observed, applied, desired map[string]any) {
	t.Helper()
	m := merger{keys: object.ChildKeys, valuesOmitted: true}
	merged := m.objects(observed, objectFieldSet(applied, false), desired)
	again := m.objects(merged, objectFieldSet(desired, false), desired)
	if fieldPath := object.FirstDifference(merged, again); fieldPath != "" {
		t.Errorf("merged again by outline, %s differs\nobserved, applied, desired: %s", fieldPath, jsonOf(t, []any{observed, applied, desired}))
	}
}

// Fields that were applied and are no longer desired are removed.
func TestFieldSetKnowsWhatToRemove(t *testing.T) {
	read := func(text string) map[string]any {
		return must.Get(object.Decode([]byte(text))).In(t)
	}
	observed := read(`{"data":{"a":"1","b":"2","theirs":"3"},"env":[{"name":"A","value":"x"},{"name":"B"},{"name":"THEIRS"}]}`)
	applied := read(`{"data":{"a":"1","b":"2"},"env":[{"name":"A","value":"x"},{"name":"B"}]}`)
	desired := read(`{"data":{"a":"1"},"env":[{"name":"A"}]}`)
	merged := merger{keys: object.ChildKeys, valuesOmitted: true}.objects(observed, objectFieldSet(applied, false), desired)
	want := `{"data":{"a":"1","theirs":"3"},"env":[{"name":"A"},{"name":"THEIRS"}]}`
	if got := jsonOf(t, merged); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFieldSetHasNoValues(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"Secret","stringData":{"password":"s3cret"}}`:                              `{"kind":{},"stringData":{"password":{}}}`,
		`{"env":[{"name":"A","value":"s3cret"}]}`:                                           `{"env":[{"name":"A","value":{}}]}`,
		`{"ports":[{"containerPort":80,"protocol":"TCP","hostPort":1}]}`:                    `{"ports":[{"containerPort":80,"hostPort":{},"protocol":"TCP"}]}`,
		`{"args":["--password","s3cret"]}`:                                                  `{"args":[{},{}]}`,
		`{"items":[{"name":"a","token":"s3cret"},{"name":"a"}]}`:                            `{"items":[{"name":{},"token":{}},{"name":{}}]}`,
		`{"name":"s3cret","spec":{"path":"s3cret","list":[{"name":{"x":"s3cret"}}]},"n":1}`: `{"n":{},"name":{},"spec":{"list":[{"name":{"x":{}}}],"path":{}}}`,
	} {
		fields := must.Get(object.Decode([]byte(text))).In(t)
		got := jsonOf(t, fieldSet(fields))
		if got != want || strings.Contains(got, "s3cret") {
			t.Errorf("outline of %s is %s, want %s", text, got, want)
		}
	}
}

// Equal hashes mean equal field sets, whatever the values.
func TestFieldSetHash(t *testing.T) {
	seeded(t, 2000, func(t *testing.T, g generator) {
		a := g.object(4)
		b := g.objectLike(a)
		if fieldSetHash(a) != fieldSetHash(b) {
			return
		}
		if fieldPath := object.FirstDifference(objectFieldSet(a, false), objectFieldSet(b, false)); fieldPath != "" {
			t.Errorf("one hash, but %s differs in %s", fieldPath, jsonOf(t, []any{a, b}))
		}
	})
	const desired = `{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":81}],"n":1}`
	for text, same := range map[string]bool{
		`{"n":2.5,"data":{"a":""},"args":["z","y"],"ports":[{"targetPort":"web","port":80.0},{"port":81}]}`: true,
		`{"data":{"a":"s3cret"},"args":["x"],"ports":[{"port":80,"targetPort":1},{"port":81}],"n":1}`:       false,
		`{"data":{"b":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":81}],"n":1}`:   false,
		`{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":82}],"n":1}`:   false,
		`{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80},{"port":81,"targetPort":1}],"n":1}`:   false,
		`{"data":{"a":"s3cret"},"args":["x","y"],"ports":[{"port":80,"targetPort":1},{"port":81}]}`:         false,
	} {
		one, err := object.Decode([]byte(desired))
		other, err2 := object.Decode([]byte(text))
		if err != nil || err2 != nil || (fieldSetHash(one) == fieldSetHash(other)) != same {
			t.Errorf("one hash as %s: %v, %v, want %v", text, err, err2, same)
		}
	}
}
