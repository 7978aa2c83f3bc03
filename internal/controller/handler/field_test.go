package handler

import (
	"strings"
	"testing"
)

// Fault H11: hooks and Go programs watch the same fields.
func TestParseField(t *testing.T) {
	for text, want := range map[string]string{
		"spec":                                   "spec",
		"spec.currency":                          "spec|currency",
		`data["config.cfg"]`:                     "data|config.cfg",
		`['odd.name'].x["y.z"].w`:                "odd.name|x|y.z|w",
		`metadata.annotations["a.b/c"]`:          "metadata|annotations|a.b/c",
		"metadata.labels":                        "metadata|labels",
		"status.phase":                           "status|phase",
		"":                                       "field path is empty",
		"spec..x":                                "a name is missing",
		"spec.":                                  "a name is missing",
		".spec":                                  "a name is missing",
		"spec.containers[0].image":               "list items cannot be selected",
		`data["config.cfg`:                       "a bracket is not closed",
		`data[""]`:                               "a bracket is not closed, or empty",
		`data["a"]b`:                             `"b" follows a bracket`,
		"metadata":                               "changes with every write",
		"metadata.resourceVersion":               "changes with every write",
		"metadata.labels.example.com/a":          `leads into a string; quote a name that contains dots: metadata.labels["example.com/note"]`,
		"kind":                                   "never changes",
		"metadata.annotations.a b":               "metadata|annotations|a b",
		`data["quoted ] inside"]["another.one"]`: "data|quoted ] inside|another.one",
	} {
		path, err := ParseField(text)
		if got := strings.Join(path, "|"); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
}
