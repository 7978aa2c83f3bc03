package operator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

func servedKinds() []served.Kind {
	kind := func(group, version, plural, name string, more served.Kind) served.Kind {
		more.Kind = object.Kind{Group: group, Version: version, Plural: plural, Kind: name}
		more.Singular = strings.ToLower(name)
		if more.Verbs == nil {
			more.Verbs = []string{"get", "list", "watch"}
		}
		return more
	}
	return []served.Kind{
		kind("", "v1", "pods", "Pod", served.Kind{ShortNames: []string{"po"}, Categories: []string{"all"}}),
		kind("", "v1", "events", "Event", served.Kind{ShortNames: []string{"ev"}}),
		kind("events.k8s.io", "v1", "events", "Event", served.Kind{ShortNames: []string{"ev"}}),
		kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", served.Kind{}),
		kind("authorization.k8s.io", "v1", "reviews", "Review", served.Kind{Verbs: []string{"create"}}),
		kind("example.com", "v2", "guitars", "Guitar", served.Kind{ShortNames: []string{"gt"}, Categories: []string{"music"}}),
		kind("example.com", "v1", "guitars", "Guitar", served.Kind{ShortNames: []string{"gt"}, Categories: []string{"music"}}),
		kind("example.com", "v1", "drums", "Drum", served.Kind{Categories: []string{"music"}}),
		kind("example.org", "v1", "guitars", "Guitar", served.Kind{}),
	}
}

func TestSelectors(t *testing.T) {
	group := func(name string) *string { return &name }
	for _, c := range []struct {
		selector  Selector
		want, err string
	}{
		{Selector{Name: "pods"}, "v1/pods", ""},
		{Selector{Name: "po"}, "v1/pods", ""},
		{Selector{Name: "Pod"}, "v1/pods", ""},
		{Selector{ShortName: "gt"}, "example.com/v2/guitars", ""},
		{Selector{Name: "guitars"}, "", "guitars is ambiguous: add the group of one of guitars.example.com, guitars.example.org"},
		{Selector{Name: "guitars", Group: group("example.org")}, "example.org/v1/guitars", ""},
		{Selector{Kind: "Guitar", Group: group("example.com")}, "example.com/v2/guitars", ""},
		{Selector{Plural: "guitars", Group: group("example.com"), Version: "v1"}, "example.com/v1/guitars", ""},
		{Selector{Singular: "drum"}, "example.com/v1/drums", ""},
		{Selector{Name: "drum", Category: "all"}, "", ""},
		{Selector{Category: "music"}, "example.com/v2/guitars example.com/v1/drums", ""},
		{Selector{Any: true, Group: group("")}, "v1/pods", ""},
		{Selector{Any: true, Group: group("example.com")}, "example.com/v2/guitars example.com/v1/drums", ""},
		{Selector{Name: "events"}, "v1/events", ""},
		{Selector{Name: "reviews"}, "", ""},
		{Selector{Name: "pods", Group: group("metrics.k8s.io")}, "metrics.k8s.io/v1beta1/pods", ""},
	} {
		found, err := c.selector.find(servedKinds())
		names := lists.Map(found, func(k served.Kind) string { return k.APIVersion() + "/" + k.Plural })
		if got := strings.Join(names, " "); got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %s, %v", &c.selector, got, err)
		}
	}
}

func TestExactSelectors(t *testing.T) {
	core, other := "", "example.com"
	for _, c := range []struct {
		selector Selector
		want     string
	}{
		{Selector{Group: &core, Version: "v1", Name: "pods"}, "v1 pods"},
		{Selector{Group: &other, Version: "v2", Plural: "guitars"}, "example.com/v2 guitars"},
		{Selector{Version: "v1", Name: "pods"}, " "},
		{Selector{Group: &other, Name: "guitars"}, " "},
		{Selector{Group: &other, Version: "v1", Category: "music"}, " "},
		{Selector{Group: &other, Version: "v1", Plural: "guitars", Kind: "Guitar"}, " "},
	} {
		if apiVersion, plural, _ := c.selector.exact(); apiVersion+" "+plural != c.want {
			t.Errorf("%s: %s %s", &c.selector, apiVersion, plural)
		}
	}
}

const handlerOf = `{"apiVersion": "setpoint.dev/v1alpha1", "kind": "HandlerController", "metadata": {"name": "a"}, `

func TestDeclarationErrors(t *testing.T) {
	const handlers = `"handlers": [{"name": "h", "reasons": ["Create"], "webhook": {"url": "/h"}}]`
	const resource = `"resource": {"apiVersion": "v1", "resource": "pods"}`
	declared := func(controllers string) string { return `{"name": "op", "controllers": [` + controllers + `]}` }
	for text, want := range map[string]string{
		``:             "unexpected end of JSON input",
		`{"name": "op`: "unexpected end of JSON input",
		`[]`:           "cannot be a JSON array",
		`{"name": 1}`:  "name: cannot be a JSON number",
		`{"name": "op", "controllers": [], "namespace": "a"}`:                                                                              `unknown field "namespace"`,
		`{"name": "op", "name": "op", "controllers": []}`:                                                                                  `duplicate field "name"`,
		`{"name": "Op.", "controllers": []}`:                                                                                               `name: "Op.": a lowercase RFC 1123 label`,
		`{"name": "op", "controllers": []}`:                                                                                                "controllers: the operator has no handlers of objects and no admission webhooks",
		`{"name": "op", "health": "healthz", "controllers": []}`:                                                                           `health: "healthz" must be a path that starts with /`,
		`{"name": "op", "namespaces": ["a", "b*"], "controllers": []}`:                                                                     `namespaces[1]: "b*": a lowercase RFC 1123 label`,
		declared(`{"apiVersion": "v1", "kind": "Pod"}`):                                                                                    "controllers[0]: must be a HandlerController or AdmissionController of setpoint.dev/v1alpha1, not Pod of v1",
		declared(handlerOf + `"status": {}}`):                                                                                              `unknown field "controllers[0].status"`,
		declared(strings.Replace(handlerOf, `"a"`, `"A b"`, 1) + `"spec": {}}`):                                                            `controllers[0].metadata.name: "A b": a lowercase RFC 1123 subdomain`,
		declared(handlerOf + `"selectors": [{}], "spec": {` + handlers + `}}`):                                                             "controllers[0].selectors[0]: one of name, plural, singular, kind, shortName, category and any is required",
		declared(handlerOf + `"selectors": [{"any": true, "name": "a"}], "spec": {` + handlers + `}}`):                                     "controllers[0].selectors[0]: any excludes category and names",
		declared(handlerOf + `"selectors": [{"nam": "a"}], "spec": {` + handlers + `}}`):                                                   `unknown field "controllers[0].selectors[0].nam"`,
		declared(handlerOf + `"selectors": [{"name": "a"}], "spec": {` + resource + `,` + handlers + `}}`):                                 "controllers[0].selectors: excludes spec.resource and spec.resources",
		declared(handlerOf + `"spec": {` + resource + `,` + strings.Replace(handlers, `"reasons"`, `"retries": -1, "reasons"`, 1) + `}}`):  "controllers[0].spec.handlers[0].retries in body should be greater than or equal to 0",
		declared(handlerOf + `"spec": {` + resource + `,` + strings.Replace(handlers, `"h"`, `"H!"`, 1) + `}}`):                            "controllers[0].spec.handlers[0].name",
		declared(handlerOf + `"spec": {` + resource + `,` + strings.Replace(handlers, `Create`, `Creation`, 1) + `}}`):                     "controllers[0].spec.handlers[0].reasons[0]",
		declared(handlerOf + `"spec": {` + resource + `,` + strings.Replace(handlers, `"webhook"`, `"webhok"`, 1) + `}}`):                  `controllers[0]: unknown field "spec.handlers[0].webhok"`,
		declared(handlerOf + `"spec": {` + resource + `,` + handlers + `}},` + handlerOf + `"spec": {` + resource + `,` + handlers + `}}`): "controllers[1].metadata.name: HandlerController/a is declared before",
		declared(handlerOf + `"spec": {` + resource + `,` + handlers + `}}` + strings.Repeat(`,{}`, maxControllers)):                       fmt.Sprintf("controllers: must be at most %d, not %d", maxControllers, maxControllers+1),
	} {
		if _, err := decodeDeclaration([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.300s\n  got  %v\n  want %s", text, err, want)
		}
	}
}

func TestRulesWithSelectors(t *testing.T) {
	review := func(rule string) string {
		return `{"name": "op", "controllers": [{"apiVersion": "setpoint.dev/v1alpha1", "kind": "AdmissionController", "metadata": {"name": "a"}, "spec": {"webhooks": [` +
			`{"name": "w", "type": "Validate", "rules": [` + rule + `], "webhook": {"url": "/reviews/a/w"}}]}}]}`
	}
	for rule, want := range map[string]string{
		`{"selector": {"name": "pods"}, "operations": ["CREATE"]}`:                                         "",
		`{"selector": {"nam": "pods"}, "operations": ["CREATE"]}`:                                          `controllers[0].spec.webhooks[0].rules[0].selector: unknown field "nam"`,
		`{"selector": {}, "operations": ["CREATE"]}`:                                                       "controllers[0].spec.webhooks[0].rules[0].selector: one of name",
		`{"selector": {"name": "pods"}, "apiVersion": "v1", "resource": "pods", "operations": ["CREATE"]}`: "controllers[0].spec.webhooks[0].rules[0].selector: excludes apiVersion and resource",
		`{"selector": {"name": "pods"}, "operations": ["PATCH"]}`:                                          "controllers[0].spec.webhooks[0].rules[0].operations[0]",
	} {
		d, err := decodeDeclaration([]byte(review(rule)))
		if want == "" && (err != nil || !d.Controllers[0].selects()) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
