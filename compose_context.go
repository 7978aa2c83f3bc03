package setpoint

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ComposeContext is a parent with its observed children, and collects the desired ones.
// It must not be used concurrently, nor after the function returns.
type ComposeContext[T any] struct {
	// Parent is the parent. Setpoint writes changes of its status; other changes are an
	// error.
	Parent *T
	// Finalizing reports that the parent is being deleted or no longer matches.
	Finalizing bool
	// Log adds the names of the controller and the parent.
	Log *slog.Logger

	objectContext

	request *hook.Request
	before  []byte
	desired []json.RawMessage
}

// Children reads the observed children of one kind in Owns. Into points to a slice of the
// kind's type, such as *[]corev1.Pod, which Children empties first; *[]Unstructured takes
// all kinds. They are sorted by namespace and name.
func (f *ComposeContext[T]) Children(into any) { f.readGroups("Children", f.request.Children, into) }

// Related reads the related objects of one kind that Customize selected, like Children.
func (f *ComposeContext[T]) Related(into any) { f.readGroups("Related", f.request.Related, into) }

func (f *ComposeContext[T]) readGroups(verb string, groups []hook.Group, into any) {
	if err := f.controller.readGroups(verb, groups, into); err != nil {
		f.problems = append(f.problems, err)
	}
}

// Child returns the child of type C with a name in the namespace of its parent, or nil.
func Child[C, T any](f *ComposeContext[T], name string) *C {
	var all []C
	f.Children(&all)
	for i := range all {
		if o, err := identify(&all[i]); err == nil && o.Name == name && o.Namespace == f.metadata.Namespace {
			return &all[i]
		}
	}
	return nil
}

// Apply adds desired children of the kinds in Owns. The default namespace and name are
// those of the parent. With generateName a child gets a generated name that is stable as
// long as the child has the same position. Objects of one kind need different names.
func (f *ComposeContext[T]) Apply(objects ...any) {
	for _, o := range objects {
		if data := f.marshalObject("ComposeContext.Apply", o, nil, applySettings{}); data != nil {
			f.desired = append(f.desired, data)
		}
	}
}

// hook returns a hook that calls fn.
func (c *Composer[T]) hook(fn ComposeFunc[T]) hook.Hook {
	return hook.Func(func(ctx context.Context, req *hook.Request) (*hook.Response, error) {
		f, err := newComposeContext[T](&c.c, req)
		if err != nil {
			return nil, err
		}
		name := nameSync
		if req.Finalizing {
			name = nameFinalize
		}
		if err := f.run(ctx, "function", name, func() error { return fn(ctx, f) }); err != nil {
			return nil, err
		}
		return f.buildResponse()
	})
}

func newComposeContext[T any](c *controller, req *hook.Request) (*ComposeContext[T], error) {
	f := &ComposeContext[T]{Finalizing: req.Finalizing, request: req}
	var err error
	if f.Parent, err = decode[T](req.Parent); err != nil {
		return nil, err
	}
	if f.objectContext, err = newObjectContext(c, "children", f.Parent, req.Parent); err != nil {
		return nil, err
	}
	if f.before, err = json.Marshal(f.Parent); err != nil {
		return nil, permanentError("write the parent as JSON: %w", err)
	}
	f.Log = f.logger()
	return f, nil
}

func (f *ComposeContext[T]) buildResponse() (*hook.Response, error) {
	status, err := f.desiredStatus()
	if err != nil {
		f.problems = append(f.problems, err)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return &hook.Response{
		Status: status, Children: f.desired, ResyncAfter: f.resyncAfter(),
		Finalized: f.Finalizing && len(f.desired) == 0 && f.report.requeueAfter == 0 && f.hasNoChildren(),
		Events:    f.report.events, Conditions: f.report.conditions, Message: f.report.message,
	}, nil
}

// resyncAfter returns when to call the function again; 0 means at the next change.
// Immediately means after a second, because a zero delay would call it without a pause.
func (f *ComposeContext[T]) resyncAfter() time.Duration {
	if f.report.requeueAfter == hook.Immediately {
		return time.Second
	}
	return f.report.requeueAfter
}

func (f *ComposeContext[T]) hasNoChildren() bool {
	for _, group := range f.request.Children {
		if len(group.Objects) > 0 {
			return false
		}
	}
	return true
}

// desiredStatus returns the whole status of the parent: the status that the function set,
// and the fields that its type does not have.
func (f *ComposeContext[T]) desiredStatus() (json.RawMessage, error) {
	after, err := json.Marshal(f.Parent)
	if err != nil {
		return nil, err
	}
	patch, status, err := mergePatches(f.before, after)
	if err != nil {
		return nil, err
	}
	if patch != nil {
		return nil, permanentError("the function changed the parent by %s: only the status can be changed", patch)
	}
	var parent struct{ Status json.RawMessage }
	if err := json.Unmarshal(f.request.Parent, &parent); err != nil {
		return nil, err
	}
	former := parent.Status
	if isNull(former) {
		former = nil
	}
	if status == nil {
		return former, nil
	}
	was := map[string]any{}
	if former != nil {
		if was, err = readJSONObject(former); err != nil {
			return nil, err
		}
	}
	changes, err := readJSONObject(status)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object.MergePatch(was, changes))
}
