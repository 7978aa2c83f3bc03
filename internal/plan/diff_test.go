package plan

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// TestCompare reads before.yaml and after.yaml, and compares the result with diff.txt.
func TestCompare(t *testing.T) {
	eachVector(t, "testdata/diff/*.txtar", func(t *testing.T, files map[string][]byte) string {
		read := func(name string) *object.Object {
			if one := treeOf(t, files[name]); one != nil {
				return parse(t, jsonOf(t, one))
			}
			return nil
		}
		before, after := read("before.yaml"), read("after.yaml")
		text := linesOf(t)(Compare(before, after))
		if strings.Contains(text, "s3cret") || strings.Contains(text, "czNjcmV0") {
			t.Error("a secret is shown")
		}
		if same := linesOf(t)(Compare(after, after)); same != "nothing\n" {
			t.Errorf("an object differs from itself: %s", same)
		}
		return text
	})
}

func linesOf(t *testing.T) func([]object.FieldChange, error) string {
	return func(changes []object.FieldChange, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 {
			return "nothing\n"
		}
		var text strings.Builder
		for _, c := range changes {
			if c.From != nil {
				text.WriteString("- " + c.Path + ": " + string(c.From) + "\n")
			}
			if c.To != nil {
				text.WriteString("+ " + c.Path + ": " + string(c.To) + "\n")
			}
		}
		return text.String()
	}
}

func TestDiffOfEachVerb(t *testing.T) {
	before := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","ownerReferences":[{"uid":"other","name":"o"}]},"data":{"a":"1","theirs":"2"}}`)
	after := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u","ownerReferences":[{"uid":"other","name":"o"}]},"data":{"a":"2"}}`)
	applied := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"uid":"parent","name":"p"}]},"data":{"a":"2","b":"3"}}`)
	whole := `- apiVersion: "v1"` + "\n" + `- data.a: "1"`
	for name, c := range map[string]struct {
		action Action
		want   string
	}{
		"create": {Action{Verb: Create, After: applied}, `+ data.a: "2"`},
		"update": {Action{Verb: Update, Before: before, After: after}, "- data.a: \"1\"\n+ data.a: \"2\"\n- data.theirs: \"2\"\n"},
		"apply": {Action{Verb: Apply, Before: before, After: applied},
			"- data.a: \"1\"\n+ data.a: \"2\"\n+ data.b: \"3\"\n" +
				"+ metadata.ownerReferences[name=p].name: \"p\"\n+ metadata.ownerReferences[name=p].uid: \"parent\"\n"},
		"recreate":              {Action{Verb: Delete, DryRunVerb: Update, Before: before, After: after}, "- data.a: \"1\"\n+ data.a: \"2\"\n- data.theirs: \"2\"\n"},
		"recreate, server-side": {Action{Verb: Delete, DryRunVerb: Apply, Before: before, After: applied}, "- data.a: \"1\"\n+ data.a: \"2\"\n+ data.b: \"3\"\n"},
		"delete":                {Action{Verb: Delete, Before: before}, whole},
	} {
		if got := linesOf(t)(Diff(c.action)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

func TestSame(t *testing.T) {
	const one = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"1"},"spec":{"containers":[{"name":"c"},{"name":"d"}]}}`
	for text, want := range map[string]bool{
		one: true,
		`{"spec":{"containers":[{"name":"c"},{"name":"d"}]},"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"2","generation":1,"annotations":{"setpoint.dev/applied":"x"},"name":"a"}}`: true,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"d"},{"name":"c"}]}}`:                                                                                 false,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"x":"z"}},"spec":{"containers":[{"name":"c"},{"name":"d"}]}}`:                                                         false,
	} {
		if got, err := Same(parse(t, one), parse(t, text)); err != nil || got != want {
			t.Errorf("the same as %s: %v, %v", text, got, err)
		}
	}
}
