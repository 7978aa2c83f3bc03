package testcase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Result is the result of a case.
type Result struct {
	Name string `json:"name"`
	// File and Line are where the case is.
	File string `json:"file"`
	Line int    `json:"line"`
	// Controller is such as CompositeController/rolling-sets, Hook as in a Case.
	Controller string `json:"controller"`
	Hook       string `json:"hook"`
	Passed     bool   `json:"passed"`
	// Updated means that the expectation was rewritten.
	Updated bool    `json:"updated,omitempty"`
	Seconds float64 `json:"seconds"`
	// Difference has lines of YAML: those expected with -, those of the response with +.
	Difference string `json:"difference,omitempty"`
	// Error is why there is no response to compare.
	Error string `json:"error,omitempty"`
	// Response is what the hook returned.
	Response fields `json:"response,omitempty"`

	// of is the case.
	of *Case
}

// Run calls the hook of a case and compares.
func Run(ctx context.Context, c *Case) Result {
	result := Result{
		Name: c.Name, File: c.Document.File, Line: c.Document.Line,
		Controller: c.target.controller.String(), Hook: c.target.hook, of: c,
	}
	began := time.Now()
	got, err := c.call(ctx)
	result.Seconds = time.Since(began).Seconds()
	if failed, ofHook := errors.AsType[*responseError](err); ofHook {
		got, err = fields{fieldError: failed.Error()}, nil
	}
	result.Response = got
	if err == nil && c.spec.Expect == nil {
		err = errNothingExpected
	}
	if err == nil {
		result.Difference, err = c.compare(got)
	}
	if err != nil {
		result.Error = err.Error()
	}
	result.Passed = result.Difference == "" && result.Error == ""
	return result
}

var errNothingExpected = errors.New("expect: required: what the hook should respond; `setpoint test --update` writes it")

// compare returns how the expected fields differ from those of a response, as lines of YAML; empty if they do not.
func (c *Case) compare(got fields) (string, error) {
	wanted, shown := fields{}, fields{}
	for name, raw := range c.spec.Expect {
		value, err := c.normal(name, raw)
		if err != nil {
			return "", fmt.Errorf("expect.%s: %w", name, err)
		}
		if name == fieldError && matchesError(value, got[name]) || name != fieldError && same(value, inOrder(name, got[name])) {
			continue
		}
		wanted[name], shown[name] = value, inOrder(name, got[name])
	}
	for _, name := range []string{fieldError, fieldCalled} {
		if _, expected := c.spec.Expect[name]; !expected && got[name] != nil {
			shown[name] = got[name]
		}
	}
	if len(wanted)+len(shown) == 0 {
		return "", nil
	}
	return yamlDiff(wanted, shown)
}

// normal returns an expected value in the form of responses.
func (c *Case) normal(name string, raw json.RawMessage) (any, error) {
	value, err := object.Decode(slices.Concat([]byte(`{"value":`), raw, []byte("}")))
	if err != nil {
		return nil, err
	}
	if name == fieldRetryAfter {
		return readableDelay(value["value"]), nil
	}
	list, _ := value["value"].([]any)
	for _, each := range list {
		switch item, _ := each.(map[string]any); {
		case name == "events" && item != nil:
			setDefault(item, "type", "Normal")
		case item != nil && isObjects(name):
			c.completeExpected(item)
		}
	}
	return inOrder(name, value["value"]), nil
}

// completeExpected sets what an expected object may leave out.
func (c *Case) completeExpected(item map[string]any) {
	if inner, wrapped := item["object"].(map[string]any); wrapped {
		item = inner
	}
	if p := c.target.compose; p != nil && len(p.Children) == 1 {
		setDefault(item, "kind", p.Children[0].Resource.Kind)
		setDefault(item, "apiVersion", p.Children[0].Resource.APIVersion())
	}
	if parent, err := c.about(c.target.parentField()); err == nil {
		difference.DropNamespace(item, parent.Namespace())
	}
}

func isObjects(name string) bool {
	return name == "children" || name == "attachments" || name == "apply"
}

// inOrder returns a list of children sorted by kind and name: their order is that of a rolling update, and no
// part of the desired state.
func inOrder(name string, value any) any {
	list, is := value.([]any)
	if !is || name != "children" && name != "attachments" && name != fieldWrites {
		return value
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(identity(a), identity(b)) })
	return list
}

func identity(of any) string {
	if text, is := of.(string); is {
		return text
	}
	o, _ := of.(map[string]any)
	metadata, _ := o["metadata"].(map[string]any)
	return fmt.Sprint(o["apiVersion"], "/", o["kind"], "/", metadata["namespace"], "/", metadata["name"])
}

// matchesError reports whether the error of a hook has the expected text, which is empty for no error.
func matchesError(want, got any) bool {
	text, is := want.(string)
	message, _ := got.(string)
	return (is || want == nil) && strings.Contains(message, text) && (text != "" || message == "")
}

// same compares values; a field that is absent equals one that is empty.
func same(want, got any) bool {
	return object.FirstDifference(orNil(want), orNil(got)) == ""
}

// orNil returns nil for an empty value.
func orNil(value any) any {
	v := reflect.ValueOf(value)
	empty := !v.IsValid() || v.IsZero()
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		empty = v.Len() == 0
	}
	if number, is := object.Number(value); empty || is && number == 0 {
		return nil
	}
	return value
}

// yamlDiff returns the differences of two sets of fields as lines of YAML: those expected with -, those of the
// response with +.
func yamlDiff(want, got fields) (string, error) {
	var sides [2]string
	for i, side := range []fields{want, got} {
		maps.DeleteFunc(side, func(_ string, value any) bool { return value == nil })
		text, err := yaml.Marshal(side)
		if err != nil {
			return "", err
		}
		if len(side) > 0 {
			sides[i] = string(text)
		}
	}
	return diff.Texts(sides[0], sides[1]).Signed(), nil
}

// Update rewrites the expectations of failed cases in their files: the fields that they have, or all of the
// response if they have none. It returns the results as they are now.
func Update(results []Result) ([]Result, error) {
	byFile := map[string][]manifest.Replacement{}
	updated := make([]Result, len(results))
	for i, r := range results {
		updated[i] = r
		if r.Passed || r.Response == nil {
			continue
		}
		if _, expected := r.of.spec.Expect[fieldError]; r.Response[fieldError] != nil && !expected {
			continue // A hook that fails is no new expectation.
		}
		byFile[r.File] = append(byFile[r.File], manifest.Replacement{Document: r.of.Document, Field: "expect",
			Value: r.of.expectation(r.Response)})
		updated[i].Passed, updated[i].Updated, updated[i].Difference, updated[i].Error = true, true, "", ""
	}
	problems := lists.Map(sortedByKey(byFile), manifest.Rewrite)
	return updated, errors.Join(problems...)
}

// expectation returns the expect of a case that the response matches.
func (c *Case) expectation(got fields) map[string]any {
	all := map[string]any{}
	for name, value := range got {
		_, given := c.spec.Expect[name]
		if given || len(c.spec.Expect) == 0 || name == fieldError || name == fieldCalled {
			all[name] = value
		}
	}
	if got[fieldError] != nil || got[fieldCalled] != nil {
		return all // Nothing else was compared.
	}
	for name := range c.spec.Expect {
		if _, has := all[name]; !has && name != fieldError && name != fieldCalled {
			all[name] = c.empty(name)
		}
	}
	if len(all) == 0 {
		return got // The hook has responded in place of what was expected.
	}
	return all
}

// empty returns the value of a field that the response does not have.
func (c *Case) empty(name string) any {
	value, err := c.normal(name, c.spec.Expect[name])
	if err != nil {
		return nil
	}
	switch value.(type) {
	case []any:
		return []any{}
	case map[string]any:
		return map[string]any{}
	case bool:
		return false
	case string:
		return ""
	}
	return 0
}
