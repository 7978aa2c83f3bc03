package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/redact"
)

// caseFile is a Case as package testcase reads it.
type caseFile struct {
	APIVersion string                     `json:"apiVersion"`
	Kind       string                     `json:"kind"`
	Metadata   map[string]string          `json:"metadata"`
	Controller string                     `json:"controller"`
	Hook       string                     `json:"hook"`
	Request    map[string]json.RawMessage `json:"request"`
	Expect     map[string]json.RawMessage `json:"expect"`
}

// ErrNoCall is returned for a run without calls of hooks.
var ErrNoCall = errors.New("the run called no hook")

// Cases returns the calls of a run with tokens as cases for `setpoint test`, one document each.
func Cases(r *Run) (string, error) {
	var text strings.Builder
	for i := range r.Steps {
		call := r.Steps[i].Call
		if call == nil {
			continue
		}
		one, err := caseOf(r, call, i)
		if err != nil {
			return "", err
		}
		if text.Len() > 0 {
			text.WriteString("---\n")
		}
		text.WriteString(one)
	}
	if text.Len() == 0 {
		return "", ErrNoCall
	}
	return text.String(), nil
}

func caseOf(r *Run, call *Call, step int) (string, error) {
	switch {
	case call.Request == nil:
		return "", errors.New("the request is no longer in memory")
	case bytes.Contains(call.Request, []byte(Redacted)) || bytes.Contains(call.Response, []byte(Redacted)):
		return "", errors.New("you cannot get all objects of the request and the response")
	}
	c := caseFile{
		APIVersion: "test.setpoint.dev/v1alpha1", Kind: "Case", Hook: call.Name, Controller: caseController(r.Controller),
		Metadata: map[string]string{"name": fmt.Sprintf("%s-%d-%d", r.Object.Name, r.ID, step)},
	}
	if err := json.Unmarshal(call.Request, &c.Request); err != nil {
		return "", fmt.Errorf("decode the request: %w", err)
	}
	for _, name := range [...]string{"handler", "webhook"} {
		if given, is := c.Request[name]; is {
			_ = json.Unmarshal(given, &c.Hook) // It is a string.
		}
	}
	dropDerived(c.Request)
	if err := c.setExpect(call); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(c)
	return caseComment(r, call) + string(text), err
}

// dropDerived removes the fields of a request that a case does not have: those that follow from others or from the
// files, and absent ones.
func dropDerived(request map[string]json.RawMessage) {
	for _, name := range [...]string{"controller", "handler", "webhook", "changes", "apiVersion", "kind", "namespace", "name"} {
		delete(request, name)
	}
	maps.DeleteFunc(request, func(_ string, value json.RawMessage) bool {
		return value == nil || slices.Contains([]string{"null", `""`, "false", "{}", "0"}, string(value))
	})
}

// caseController returns the controller as a case names it, such as compositecontroller/teams.
func caseController(name string) string {
	kind, own, is := strings.Cut(name, "/")
	if !is {
		return name
	}
	kind, _, _ = strings.Cut(kind, ".")
	return kind + "/" + own
}

func (c *caseFile) setExpect(call *Call) error {
	c.Expect = map[string]json.RawMessage{}
	if call.Response != nil {
		if err := json.Unmarshal(call.Response, &c.Expect); err != nil {
			return fmt.Errorf("decode the response: %w", err)
		}
		delete(c.Expect, "logicVersion") // Other logic has another one.
	}
	if call.Error != "" {
		message, err := json.Marshal(call.Error)
		c.Expect = map[string]json.RawMessage{"error": message}
		return err
	}
	for _, list := range [...]string{"children", "attachments"} {
		if bytes.Contains(call.Request, []byte(`"`+list+`":{`)) && c.Expect[list] == nil {
			c.Expect[list] = json.RawMessage("[]")
		}
	}
	return nil
}

func caseComment(r *Run, call *Call) string {
	text := fmt.Sprintf("# %s of %s at %s: %s", call.Name, r.Object, r.Began.UTC().Format("2006-01-02 15:04:05"),
		strings.Join(r.Causes, ", and "))
	lines := []string{strings.Join(strings.Fields(text), " ")} // A cause is no line of YAML.
	if redact.HasTokens(string(call.Request) + string(call.Response)) {
		lines = append(lines, "# Tokens stand for the values of Secrets.")
	}
	for _, token := range redact.NewTokens(string(call.Request), string(call.Response)) {
		lines = append(lines, "# The hook made up the value at "+token+", which it cannot respond with: take it out of expect.")
	}
	return strings.Join(lines, "\n") + "\n"
}
