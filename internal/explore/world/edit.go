package world

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"encoding/json"
	"errors"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Edit is a change of one object by a user or another client.
type Edit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Create is the manifest of an object to create.
	Create *object.Object `json:"-"`
	// Patch is a merge patch.
	Patch map[string]any `json:"patch,omitempty"`
	// Delete deletes the object.
	Delete bool `json:"delete,omitempty"`
	// Generated marks edits that no author has written.
	Generated bool `json:"-"`
}

// MarshalJSON writes the manifest of an object to create as it is.
func (e Edit) MarshalJSON() ([]byte, error) {
	type plain Edit
	out := struct {
		plain

		Create json.RawMessage `json:"create,omitempty"`
	}{plain: plain(e)}
	if e.Create != nil {
		out.Create = e.Create.JSON()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Edit) UnmarshalJSON(data []byte) error {
	type plain Edit
	in := struct {
		*plain

		Create json.RawMessage `json:"create,omitempty"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Create == nil {
		return nil
	}
	var err error
	e.Create, err = object.Parse(in.Create)
	return err
}

// ErrUnchanged is the error of an edit that has nothing to change.
var ErrUnchanged = errors.New("there is nothing to change")

// Editor is the field manager of edits.
const Editor = "kubectl"

// RequestOf returns the request of an edit, and whether there is something to change. The object is nil if there is
// none.
func RequestOf(resource object.Resource, o *object.Object, edit Edit) (request apiserver.Request, changes bool) {
	switch {
	case edit.Create != nil:
		request = apiserver.CreationOf(resource, edit.Create)
		request.Strict = true
		return request, true
	case o == nil || o.Deleting() && edit.Delete:
		return apiserver.Request{}, false
	case edit.Delete:
		background := metav1.DeletePropagationBackground
		return apiserver.DeletionOf(resource, o, metav1.DeleteOptions{PropagationPolicy: &background}), true
	}
	subresource := ""
	if _, status := edit.Patch["status"]; status && len(edit.Patch) == 1 && resource.Status {
		subresource = "status"
	}
	request = apiserver.PatchOf(resource, o, subresource, edit.Patch)
	request.Strict = true // A misspelled field is a mistake, not an edit that changes nothing.
	return request, true
}

// AddPaths adds the paths of values, and their names.
func AddPaths(all map[string][]string, names []string, value map[string]any) {
	for name, member := range value {
		below := append(slices.Clone(names), name)
		if nested, is := member.(map[string]any); is && len(nested) > 0 {
			AddPaths(all, below, nested)
		} else {
			all[pathOf(below)] = below
		}
	}
}

// pathOf joins the names of a path.
func pathOf(names []string) string {
	path := ""
	for _, name := range names {
		path = object.JoinPath(path, name)
	}
	return path
}

// UnknownFields returns the part of an error that names fields which the schema does not have; empty if it names none. The
// API server puts the whole object before it.
func UnknownFields(err error) string {
	if err == nil {
		return ""
	}
	_, fields, _ := strings.Cut(err.Error(), "strict decoding error: ")
	return fields
}
