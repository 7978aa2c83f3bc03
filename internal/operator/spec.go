package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// declaredController is a controller object with selectors beside its spec.
type declaredController struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   metadata       `json:"metadata"`
	Selectors  []Selector     `json:"selectors,omitempty"`
	Spec       map[string]any `json:"spec"`

	kind          compile.Kind
	notifications string
}

// metadata are the fields of an object that a declaration may set.
type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// decodeStrictly refuses unknown and duplicate fields.
func decodeStrictly(data []byte, into any) error {
	return errors.Join(object.DecodeStrictly(data, into)...)
}

func (c *declaredController) asObject(field string, spec map[string]any) (*object.Object, error) {
	data, err := json.Marshal(map[string]any{"apiVersion": c.APIVersion, "kind": c.Kind, "metadata": c.Metadata, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return object.Parse(data)
}

// selectKinds returns the kinds of a selector; field is its path.
type selectKinds func(field string, s *Selector) ([]object.Kind, error)

// placeholder stands for all selected kinds while a declaration is checked.
func placeholder(string, *Selector) ([]object.Kind, error) {
	return []object.Kind{{Version: "v1", Plural: "placeholders", Kind: "Placeholder"}}, nil
}

// checkSpec returns the problems of the spec: unknown fields, and what the schema of the CRD
// refuses, as the API server does for a stored controller.
func (c *declaredController) checkSpec(field string) []error {
	if c.Spec == nil {
		return []error{fmt.Errorf("%s.spec: required", field)}
	}
	if len(c.Selectors) > 0 && (c.Spec["resource"] != nil || c.Spec["resources"] != nil) {
		return []error{fmt.Errorf("%s.selectors: excludes spec.resource and spec.resources", field)}
	}
	spec, err := c.expand(field, "http://operator", placeholder)
	if err != nil {
		return []error{err}
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return []error{fmt.Errorf("%s.spec: %w", field, err)}
	}
	var typed any = &api.HandlerController{}
	if c.Kind == api.AdmissionControllerKind {
		typed = &api.AdmissionController{}
	}
	if err := decodeStrictly(data, typed); err != nil {
		return []error{fmt.Errorf("%s: %w", field, err)}
	}
	problems := checkSchema(c.Kind, field+".spec", spec)
	if handlers, is := typed.(*api.HandlerController); is {
		problems = append(problems, checkHandlers(field+".spec.handlers", handlers.Spec.Handlers)...)
	}
	return problems
}

// checkHandlers checks what rules of the CRD check that are no part of its schema.
func checkHandlers(field string, handlers []api.Handler) []error {
	var problems []error
	known := []api.HandlerReason{api.ReasonCreate, api.ReasonUpdate, api.ReasonDelete, api.ReasonResume, api.ReasonEvent, api.ReasonDrift}
	seen := map[string]bool{}
	for i := range handlers {
		h := &handlers[i]
		say := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s[%d]."+format, append([]any{field, i}, args...)...))
		}
		if wrong := validation.IsDNS1123Label(h.Name); len(wrong) > 0 {
			say("name: %q must be lower-case letters, digits and dashes, at most 63", h.Name)
		}
		if seen[h.Name] {
			say("name: %s is declared before", h.Name)
		}
		seen[h.Name] = true
		for j, reason := range h.Reasons {
			if !slices.Contains(known, reason) {
				say("reasons[%d]: %q must be one of %v", j, reason, known)
			}
		}
	}
	return problems
}

// expand returns the spec with absolute URLs, and with the kinds of all selectors.
func (c *declaredController) expand(field, base string, kinds selectKinds) (map[string]any, error) {
	spec := runtime.DeepCopyJSON(c.Spec)
	makeAbsolute(spec, base)
	if c.Kind == api.AdmissionControllerKind {
		return spec, expandRules(field+".spec", spec, kinds)
	}
	if c.notifications != "" && spec["notifications"] == nil {
		spec["notifications"] = map[string]any{"webhook": map[string]any{"url": base + c.notifications}}
	}
	if len(c.Selectors) == 0 {
		return spec, nil
	}
	var selected []object.Kind
	for i := range c.Selectors {
		found, err := kinds(fmt.Sprintf("%s.selectors[%d]", field, i), &c.Selectors[i])
		if err != nil {
			return nil, err
		}
		selected = lists.Union(selected, found)
	}
	setKinds(spec, selected, false)
	return spec, nil
}

func setKinds(spec map[string]any, kinds []object.Kind, several bool) {
	delete(spec, "resource")
	resources := lists.Map(kinds, func(k object.Kind) any { return map[string]any{"apiVersion": k.APIVersion(), "resource": k.Plural} })
	if spec["resources"] = resources; len(resources) == 1 && !several {
		spec["resource"] = resources[0]
		delete(spec, "resources")
	}
}

// makeAbsolute makes the URLs of webhooks absolute that are paths of the process.
func makeAbsolute(value any, base string) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			makeAbsolute(each, base)
		}
	case map[string]any:
		if webhook, is := value["webhook"].(map[string]any); is {
			if path, is := webhook["url"].(string); is && strings.HasPrefix(path, "/") {
				webhook["url"] = base + path
			}
		}
		for _, each := range value {
			makeAbsolute(each, base)
		}
	}
}

// expandRules replaces each rule with a selector by one for each selected kind.
func expandRules(field string, spec map[string]any, kinds selectKinds) error {
	webhooks, _ := spec["webhooks"].([]any) // The schema refuses other types.
	for i, one := range webhooks {
		webhook, _ := one.(map[string]any)
		declared, _ := webhook["rules"].([]any)
		var rules []any
		for j, rule := range declared {
			some, err := expandRule(fmt.Sprintf("%s.webhooks[%d].rules[%d]", field, i, j), rule, kinds)
			if err != nil {
				return err
			}
			rules = append(rules, some...)
		}
		if declared != nil {
			webhook["rules"] = rules
		}
	}
	return nil
}

func expandRule(field string, declared any, kinds selectKinds) ([]any, error) {
	rule, _ := declared.(map[string]any)
	selector, selects := rule["selector"]
	if !selects {
		return []any{declared}, nil
	}
	field += ".selector"
	if rule["apiVersion"] != nil || rule["resource"] != nil {
		return nil, fmt.Errorf("%s: excludes apiVersion and resource", field)
	}
	var s Selector
	data, err := json.Marshal(selector)
	if err == nil {
		err = decodeStrictly(data, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	found, err := kinds(field, &s)
	var rules []any
	for _, kind := range found {
		each := runtime.DeepCopyJSON(rule)
		delete(each, "selector")
		each["apiVersion"], each["resource"] = kind.APIVersion(), kind.Plural
		rules = append(rules, each)
	}
	return rules, err
}

// checkSchema validates the spec of a controller with the schema of its CRD.
func checkSchema(kind, field string, value map[string]any) []error {
	specified, err := specSchema(kind)
	if err != nil {
		return []error{err}
	}
	return validate.NewSchemaValidator(specified, nil, field, strfmt.Default).Validate(value).Errors
}

func specSchema(kind string) (*spec.Schema, error) {
	for _, text := range crd.All() {
		asJSON, err := yaml.YAMLToJSON(text)
		var served []schema.Served
		if err == nil {
			served, err = schema.OfCRD(asJSON)
		}
		if err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
		}
		if served[0].Kind.Kind == kind && served[0].Group == "setpoint.dev" {
			specified := served[0].Schema.Properties["spec"]
			return &specified, nil
		}
	}
	return nil, fmt.Errorf("no CRD of %s", kind)
}
