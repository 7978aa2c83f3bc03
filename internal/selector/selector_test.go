package selector

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/heaptest"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

func keyOf(o *object.Object) queue.Key { return queue.Key{Namespace: o.Namespace(), Name: o.Name()} }

// seeded runs a property with many random sources. A failure names the seed.
func seeded(t *testing.T, times int, property func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	start := rand.Uint64()
	for i := range uint64(times) {
		property(t, rand.New(rand.NewPCG(start+i, 0)))
		if t.Failed() {
			t.Fatalf("with seed %d", start+i)
		}
	}
}

func pick(r *rand.Rand, texts ...string) string { return texts[r.IntN(len(texts))] }

// randomSelector returns a spec.selector, which may be invalid.
func randomSelector(r *rand.Rand) string {
	if r.IntN(12) == 0 {
		return pick(r, `{}`, `[]`, `{"matchExpressions":[{"key":"a","operator":"Near"}]}`, `{"matchLabels":{"a":"b c"}}`)
	}
	var labels, expressions []string
	for _, key := range []string{"a", "b"} {
		if r.IntN(2) == 0 {
			labels = append(labels, fmt.Sprintf("%q:%q", key, pick(r, "1", "2")))
		}
	}
	for range r.IntN(3) {
		expressions = append(expressions, fmt.Sprintf(`{"key":%q,%s}`, pick(r, "a", "b", "c"), pick(r,
			`"operator":"In","values":["1"]`, `"operator":"In","values":["1","2","2"]`, `"operator":"NotIn","values":["1"]`,
			`"operator":"Exists"`, `"operator":"DoesNotExist"`)))
	}
	return fmt.Sprintf(`{"matchLabels":{%s},"matchExpressions":[%s]}`, strings.Join(labels, ","), strings.Join(expressions, ","))
}

func randomParent(t *testing.T, r *rand.Rand) *object.Object {
	deleting := ""
	if r.IntN(10) == 0 {
		deleting = `"deletionTimestamp":"2026-01-01T00:00:00Z",`
	}
	return parse(t, fmt.Sprintf(`{"kind":"Shop","metadata":{"name":%q,"namespace":%q,%s"uid":"u"},"spec":{"selector":%s}}`,
		pick(r, "p", "q", "r", "s", "t"), pick(r, "town", "city"), deleting, randomSelector(r)))
}

func randomOrphan(t *testing.T, r *rand.Rand) *object.Object {
	var labels []string
	for _, key := range []string{"a", "b", "c"} {
		if r.IntN(3) > 0 {
			labels = append(labels, fmt.Sprintf("%q:%q", key, pick(r, "1", "2", "3")))
		}
	}
	return parse(t, fmt.Sprintf(`{"kind":"Pod","metadata":{"name":"o","namespace":%q,"labels":{%s}}}`, pick(r, "town", "city"), strings.Join(labels, ",")))
}

func TestIndexMatchesLinearSearch(t *testing.T) {
	seeded(t, 50, func(t *testing.T, r *rand.Rand) {
		s, alive := New(), map[queue.Key]*object.Object{}
		for range 60 {
			parent := randomParent(t, r)
			if r.IntN(4) == 0 {
				s.Drop(keyOf(parent))
				delete(alive, keyOf(parent))
			} else {
				s.Set(keyOf(parent), parent, false)
				alive[keyOf(parent)] = parent
			}
			orphan, sameNamespace := randomOrphan(t, r), r.IntN(2) == 0
			got, want := s.Matching(orphan, sameNamespace), matchingParents(alive, orphan, sameNamespace)
			if !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("%s is sought by %v, want %v", orphan.JSON(), got, want)
			}
		}
		for _, parent := range alive {
			s.Drop(keyOf(parent))
		}
		if len(s.byKey)+len(s.byLabel)+len(s.unindexed) != 0 {
			t.Errorf("with no parent left, there is %v, %v, %v", s.byKey, s.byLabel, s.unindexed)
		}
	})
}

func matchingParents(parents map[queue.Key]*object.Object, orphan *object.Object, sameNamespace bool) []queue.Key {
	var found []queue.Key
	for key, parent := range parents {
		selector, err := Of(parent, false)
		if err != nil || parent.Deleting() || sameNamespace && key.Namespace != orphan.Namespace() {
			continue
		}
		if selector.Matches(orphan.Labels()) {
			found = append(found, key)
		}
	}
	return found
}

func sorted(keys []queue.Key) []string {
	var names []string
	for _, key := range keys {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}

func TestIndexOfGeneratedSelectors(t *testing.T) {
	s := New()
	set := func(name, uid, more string) {
		parent := parse(t, fmt.Sprintf(`{"kind":"Shop","metadata":{"name":%q,"namespace":"town","uid":%q%s}}`, name, uid, more))
		s.Set(keyOf(parent), parent, true)
	}
	matches := func(uid, want string) {
		t.Helper()
		orphan := parse(t, `{"kind":"Pod","metadata":{"name":"o","namespace":"town","labels":{"a":"b","controller-uid":"`+uid+`"}}}`)
		if got := strings.Join(sorted(s.Matching(orphan, true)), " "); got != want {
			t.Errorf("%s matches %q, want %q", uid, got, want)
		}
	}
	set("p", "u-1", "")
	set("q", "u-2", "")
	matches("u-1", "town/p")
	matches("u-3", "")
	set("p", "u-3", "")
	matches("u-1", "")
	matches("u-3", "town/p")
	matches("u-2", "town/q")

	elsewhere := parse(t, `{"kind":"Pod","metadata":{"name":"o","namespace":"city","labels":{"controller-uid":"u-2"}}}`)
	if same, all := s.Matching(elsewhere, true), s.Matching(elsewhere, false); len(same) != 0 || len(all) != 1 {
		t.Errorf("an orphan in another namespace is sought by %v; with parents of all namespaces by %v", same, all)
	}
	unlabeled := parse(t, `{"kind":"Pod","metadata":{"name":"o","namespace":"town","labels":{"a":"u-2"}}}`)
	if got := s.Matching(unlabeled, true); len(got) != 0 {
		t.Errorf("an orphan without the label is sought by %v", got)
	}

	set("q", "u-2", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`)
	matches("u-2", "")
	s.Drop(queue.Key{Namespace: "town", Name: "p"})
	matches("u-3", "")
	if len(s.generated.byUID)+len(s.generated.uidOf)+len(s.byKey) != 0 {
		t.Errorf("with no parent left, there is %v", s.generated)
	}
}

// TestIndexIsSmall limits the memory of a parent with a generated selector.
func TestIndexIsSmall(t *testing.T) {
	const parents, limit = 10_000, 200
	all := make([]*object.Object, parents)
	for i := range all {
		all[i] = parse(t, fmt.Sprintf(`{"kind":"Shop","metadata":{"name":"p-%d","uid":"0b5c8e0e-5f1c-4d8e-9d53-%012d"}}`, i, i))
	}
	var s *Index
	held := heaptest.Held(func() {
		s = New()
		for _, parent := range all {
			s.Set(keyOf(parent), parent, true)
		}
	})
	if held/parents > limit {
		t.Errorf("%d bytes per parent, want at most %d", held/parents, limit)
	}
	runtime.KeepAlive(all)
	runtime.KeepAlive(s)
}

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		spec      string
		generated bool
		want, err string
	}{
		"generated":          {`{}`, true, "controller-uid=u-1", ""},
		"generated wins":     {`{"selector":{"matchLabels":{"a":"b"}}}`, true, "controller-uid=u-1", ""},
		"labels":             {`{"selector":{"matchLabels":{"b":"2","a":"1"}}}`, false, "a=1,b=2", ""},
		"expressions":        {`{"selector":{"matchExpressions":[{"key":"a","operator":"NotIn","values":["x","w"]},{"key":"b","operator":"Exists"}]}}`, false, "a notin (w,x),b", ""},
		"missing":            {`{}`, false, "", "spec.selector: required, unless the controller sets generateSelector"},
		"null":               {`{"selector":null}`, false, "", "spec.selector: required"},
		"empty":              {`{"selector":{}}`, false, "", "an empty selector would match everything"},
		"of empty parts":     {`{"selector":{"matchLabels":{},"matchExpressions":[]}}`, false, "", "an empty selector would match everything"},
		"of a Service":       {`{"selector":{"app":"web"}}`, false, "", "must have matchLabels or matchExpressions"},
		"of another type":    {`{"selector":"a=b"}`, false, "", "spec.selector: json: cannot unmarshal string"},
		"unknown operator":   {`{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}`, false, "", `spec.selector: "Near" is not a valid label selector operator`},
		"values without use": {`{"selector":{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}}`, false, "", "spec.selector: "},
		"invalid value":      {`{"selector":{"matchLabels":{"a":"b c"}}}`, false, "", "spec.selector: "},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := Of(parse(t, `{"kind":"Shop","metadata":{"name":"p","uid":"u-1"},"spec":`+c.spec+`}`), c.generated)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, %v; want an error with %q", selector, err, c.err)
				}
				return
			}
			if err != nil || selector.String() != c.want {
				t.Errorf("got %v, %v; want %s", selector, err, c.want)
			}
		})
	}
}
