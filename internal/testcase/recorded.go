package testcase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// recorded is a recorded call, to be made again.
type recorded struct {
	*Case
	call *recording.Call
	// text is the request as JSON.
	text json.RawMessage
	// response are the recorded fields.
	response fields
}

// errNoController is returned for a call of a controller that the files do not have.
var errNoController = errors.New("the files do not have the controller")

// newRecorded returns a call as a case of the files.
func newRecorded(w *workspace.Workspace, call *recording.Call) (*recorded, error) {
	request, err := call.Request()
	if err != nil {
		return nil, err
	}
	response, err := call.Response()
	if err != nil {
		return nil, err
	}
	recording.DropDerived(request)
	r := &recorded{call: call}
	if r.text, err = json.Marshal(request); err != nil {
		return nil, err
	}
	if r.Case, err = recordedCase(w, call, r.text); err != nil {
		return nil, err
	}
	r.response = fields{}
	if response != nil {
		if r.response, err = r.target.decodeFields(response, call.Object.Namespace); err != nil {
			return nil, err
		}
	}
	if call.Error != "" {
		r.response[fieldError] = call.Error
	}
	return r, nil
}

// recordedCase returns a case with a request.
func recordedCase(w *workspace.Workspace, call *recording.Call, request json.RawMessage) (*Case, error) {
	files := *w
	if files.Controllers = controllersNamed(w.Controllers, call.Controller); len(files.Controllers) == 0 {
		return nil, fmt.Errorf("%w %s", errNoController, call.Controller)
	}
	c := &Case{Name: call.String(), spec: spec{Hook: call.Hook}}
	if err := json.Unmarshal(request, &c.spec.Request); err != nil {
		return nil, err
	}
	given, err := object.Decode(request)
	if err != nil {
		return nil, err
	}
	c.Document = manifest.Document{Object: &unstructured.Unstructured{Object: map[string]any{"request": given}}}
	err = c.resolve(&files)
	return c, err
}

// controllersNamed returns the controllers with a name as in logs; else those of the same kind in the other API group.
func controllersNamed(all []*workspace.Controller, name string) []*workspace.Controller {
	kind, own, _ := strings.Cut(name, "/")
	kind, _, _ = strings.Cut(kind, ".")
	var same, migrated []*workspace.Controller
	for _, c := range all {
		switch {
		case c.Kind.Name+"/"+c.Object.Name() == name:
			same = append(same, c)
		case strings.EqualFold(c.Object.Kind(), kind) && c.Object.Name() == own:
			migrated = append(migrated, c)
		}
	}
	if len(same) > 0 {
		return same
	}
	return migrated
}

// respond calls the hook. The error of a hook is a field.
func (c *Case) respond(ctx context.Context) (fields, error) {
	got, err := c.call(ctx)
	if message, ofHook := errorOf(err); ofHook && ctx.Err() == nil {
		return fields{fieldError: message}, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	return got, err
}

// secretParts are the parts of a response that depend on values of Secrets.
type secretParts struct {
	paths []string
	// kinds have objects whose names depend on them, such as "children ConfigMap".
	kinds map[string]bool
}

// secretParts returns in which parts a response differs if the Secrets have other values.
func (r *recorded) secretParts(ctx context.Context, w *workspace.Workspace, got fields) (*secretParts, error) {
	other, err := recordedCase(w, r.call, redact.OtherTokens(r.text))
	if err != nil {
		return nil, err
	}
	again, err := other.respond(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(again)
	if err != nil {
		return nil, err
	}
	mapped, err := object.Decode(redact.OtherTokens(text))
	if err != nil {
		return nil, err
	}
	parts := &secretParts{kinds: map[string]bool{}}
	for _, change := range difference.Changes(got, mapped) {
		parts.paths = append(parts.paths, change.Path)
	}
	for _, field := range difference.NamedFields {
		was, is := difference.Named(got, field), difference.Named(mapped, field)
		for name := range difference.Union(was, is) {
			if (was[name] == nil) != (is[name] == nil) {
				parts.kinds[kindOfPath(object.JoinPath(field, name))] = true
			}
		}
	}
	return parts, nil
}

// include reports whether a path is within the parts.
func (p *secretParts) include(path string) bool {
	return p.kinds[kindOfPath(path)] || slices.ContainsFunc(p.paths, func(part string) bool {
		rest, is := strings.CutPrefix(path, part)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// kindOfPath returns the field and the kind in a path such as children["ConfigMap shop/red"].data.
func kindOfPath(path string) string {
	field := path[:max(0, strings.IndexAny(path, ".["))]
	kind, _, _ := strings.Cut(strings.TrimLeft(path[len(field):], `.["`), " ")
	return field + " " + kind
}
