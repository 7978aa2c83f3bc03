// Package testcase runs cases: files with a request to a hook, and what the hook is expected to respond. It also makes cases of
// the objects in files, to render what the hooks return for them.
//
// It completes abridged objects, calls the hooks of a workspace, compares, and rewrites expectations. Package
// workspace has the files and the hooks; the command line prints results.
package testcase

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// Case is one request and its expected response.
type Case struct {
	// Name and Document say where it is.
	Name     string
	Document manifest.Document

	spec spec
	// target is what is called.
	target target
	// files are the objects of which the hook gets those that customize selects; nil for those of the request.
	files []*object.Object
}

// spec are the fields of a Case.
type spec struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	// Controller is the name of a controller, or KIND/NAME. Optional if only one can have the hook.
	Controller string `json:"controller"`
	// Hook is sync, finalize, customize, or the name of a handler or of a webhook.
	Hook    string  `json:"hook"`
	Request request `json:"request"`
	Expect  expect  `json:"expect"`
}

// request is the request to a hook, as in the reference of its kind of hook.
type request struct {
	// Controller replaces the controller of the files.
	Controller json.RawMessage `json:"controller"`

	// Parent, Children and Related are those of composites; a decorator has Object and Attachments.
	Parent      json.RawMessage `json:"parent"`
	Object      json.RawMessage `json:"object"`
	Children    objects         `json:"children"`
	Attachments objects         `json:"attachments"`
	Related     objects         `json:"related"`
	Finalizing  *bool           `json:"finalizing"`

	// The fields of handlers.
	Reason        string          `json:"reason"`
	PreviousState json.RawMessage `json:"previousState"`
	Owned         objects         `json:"owned"`
	Attempt       int             `json:"attempt"`
	FirstAttempt  string          `json:"firstAttempt"`
	Progress      json.RawMessage `json:"progress"`
	Deleted       bool            `json:"deleted"`
	Event         string          `json:"event"`
	Daemon        string          `json:"daemon"`

	// The fields of reviews.
	UID         string          `json:"uid"`
	Operation   string          `json:"operation"`
	Resource    string          `json:"resource"`
	Subresource string          `json:"subresource"`
	OldObject   json.RawMessage `json:"oldObject"`
	User        json.RawMessage `json:"user"`
	DryRun      bool            `json:"dryRun"`
}

// expect is the expected response: those of its fields that the case gives.
type expect map[string]json.RawMessage

// objects are a list of objects, or the groups of a request.
type objects []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (o *objects) UnmarshalJSON(text []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil {
		*o = list
		return nil
	}
	var groups map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &groups); err != nil { // It would say which Go type it is not.
		return errors.New("children, attachments, related and owned must be a list of objects, or groups of objects such as {Pod.v1: " +
			"{default/a: {…}}}")
	}
	for _, group := range sortedByKey(groups) {
		*o = append(*o, sortedByKey(group)...)
	}
	return nil
}

// sortedByKey returns the values of a map in the order of its keys.
func sortedByKey[V any](of map[string]V) []V {
	return lists.Map(lists.Keys(of), func(key string) V { return of[key] })
}

// Read returns the cases of a workspace. It returns all errors.
func Read(w *workspace.Workspace) ([]*Case, error) {
	schemas, err := kinds.ReadCRDs(lists.Map(w.CRDs, (*object.Object).JSON)...)
	if err != nil {
		return nil, err
	}
	var all []*Case
	var problems []error
	for _, d := range w.Tests {
		if d.Object.GetKind() != workspace.CaseKind {
			continue
		}
		c := &Case{Name: d.Object.GetName(), Document: d}
		if err := d.Decode(&c.spec); err != nil {
			problems = append(problems, err)
			continue
		}
		if err := c.resolve(w); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d.Locate(err), c.Name, err))
			continue
		}
		c.target.schemas = schemas
		all = append(all, c)
	}
	return all, errors.Join(problems...)
}
