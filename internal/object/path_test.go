package object_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault H11: there is one parser of field paths.
func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{
		"spec":          "spec",
		"spec.template": "spec|template",
		`metadata.annotations["example.com/note"]`: "metadata|annotations|example.com/note",
		`metadata.labels['a.b/c'].x`:               "refused: leads into a string",
		`spec["a.b"].c["d"]["e"]`:                  "spec|a.b|c|d|e",
		`["spec"].x`:                               "spec|x",
		"metadata.annotations.example.com/note":    `refused: "metadata.annotations.example.com/note" leads into a string; quote a name that contains dots: metadata.annotations["example.com/note"]`,
		"":                                         "refused: field path is empty",
		"spec..x":                                  "refused: a name is missing",
		".spec":                                    "refused: a name is missing",
		"spec.":                                    "refused: a name is missing",
		"spec.a[0]":                                "refused: list items cannot be selected",
		`spec["a`:                                  "refused: a bracket is not closed",
		`spec["a"`:                                 "refused: a bracket is not closed",
		`spec[""]`:                                 "refused: a bracket is not closed, or empty",
		`spec["a"]b`:                               `refused: "b" follows a bracket`,
		"spec.a]":                                  `refused: "]" follows a bracket`,
	} {
		path, err := object.ParsePath(text)
		if _, problem, refused := strings.Cut(want, "refused: "); refused {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%s: %v %v, want %s", text, path, err, want)
			}
			continue
		}
		if err != nil || strings.Join(path, "|") != want {
			t.Errorf("%s: %v %v, want %s", text, path, err, want)
		}
		joined := ""
		for _, name := range path {
			joined = object.JoinPath(joined, name)
		}
		if again, err := object.ParsePath(joined); err != nil || !slices.Equal(again, path) {
			t.Errorf("%s is written %s, which reads %v %v", text, joined, again, err)
		}
		for field, rule := range pathRules(t) {
			if !rule.MatchString(text) {
				t.Errorf("%s refuses %s", field, text)
			}
		}
	}
}

// The API server rejects invalid paths, too.
func TestSchemasRejectInvalidPaths(t *testing.T) {
	for _, text := range []string{"", "spec..x", ".spec", "spec.", "spec.a[0]", `spec["a`, `spec["a"`, `spec[""]`, `spec["a"]b`, "spec.a]"} {
		if _, err := object.ParsePath(text); err == nil {
			t.Errorf("%s is parsed", text)
		}
		for field, rule := range pathRules(t) {
			if rule.MatchString(text) {
				t.Errorf("%s accepts %s", field, text)
			}
		}
	}
}

// pathRules returns the patterns in the CRDs, by the fields with paths.
func pathRules(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	rules := map[string]*regexp.Regexp{}
	for field, file := range map[string]string{
		"fieldPaths": "../../config/crd/setpoint.dev_compositecontrollers.yaml",
		"fields":     "../../config/crd/setpoint.dev_handlercontrollers.yaml",
	} {
		text := must.Get(os.ReadFile(file)).In(t)
		var crd any
		must.Succeed(t, yaml.Unmarshal(text, &crd))
		pattern := itemPattern(crd, field)
		if pattern == "" {
			t.Fatalf("%s has no pattern for the items of %s", file, field)
		}
		rules[field] = regexp.MustCompile(pattern)
	}
	return rules
}

// firstRulePattern returns the pattern of the first rule of a list.
func firstRulePattern(rules any) string {
	list, _ := rules.([]any)
	if len(list) == 0 {
		return ""
	}
	rule, _ := list[0].(map[string]any)
	text, _ := rule["rule"].(string)
	pattern, _ := strings.CutPrefix(text, `self.matches(r"`)
	return strings.TrimSuffix(pattern, `")`)
}

// itemPattern returns the pattern of the items of a list field.
func itemPattern(tree any, field string) string {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			if found := itemPattern(item, field); found != "" {
				return found
			}
		}
	case map[string]any:
		if list, is := tree[field].(map[string]any); is {
			if items, is := list["items"].(map[string]any); is {
				return firstRulePattern(items["x-kubernetes-validations"])
			}
		}
		for _, member := range tree {
			if found := itemPattern(member, field); found != "" {
				return found
			}
		}
	}
	return ""
}
