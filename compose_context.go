package setpoint

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// ComposeContext is a parent with its children as they are, and is told by a ComposeFunc
// what they should be. It is for one goroutine at a time, and not to be kept.
type ComposeContext[T any] struct {
	// Parent is the parent as it is. It is the function's own; the changes that are
	// made to its status are written, those to the rest of it refused.
	Parent *T
	// Finalizing says that the parent is going away, or does not match any longer.
	Finalizing bool
	// Log has the names of the controller and the parent.
	Log *slog.Logger

	objectContext

	request *hook.Request
	before  []byte
	desired []json.RawMessage
}

// Children finds the children of one kind that Owns declares. Into points to a
// slice of the kind's type, such as *[]corev1.Pod, and is emptied first;
// *[]Unstructured takes those of all kinds. They are sorted by namespace and name.
func (f *ComposeContext[T]) Children(into any) { f.readGroups("Children", f.request.Children, into) }

// Related finds the objects of one kind that Customize asked for, like Children.
func (f *ComposeContext[T]) Related(into any) { f.readGroups("Related", f.request.Related, into) }

func (f *ComposeContext[T]) readGroups(verb string, groups []hook.Group, into any) {
	if err := f.controller.readGroups(verb, groups, into); err != nil {
		f.problems = append(f.problems, err)
	}
}

// Child is the child of type C with a name, in the namespace of its parent; nil if
// there is none.
func Child[C, T any](f *ComposeContext[T], name string) *C {
	var all []C
	f.Children(&all)
	for i := range all {
		if o, err := identify(&all[i]); err == nil && o.Metadata.Name == name && o.Metadata.Namespace == f.metadata.Namespace {
			return &all[i]
		}
	}
	return nil
}

// Apply adds children to those that should be. Each is of a kind that Owns
// declares. Without a namespace it is in that of the parent. Without a name it is
// named like the parent; with a generateName it gets a name beginning so that
// stays the same as long as it is wanted in the same place of the answer. Objects
// of one kind need different names.
func (f *ComposeContext[T]) Apply(objects ...any) {
	for _, o := range objects {
		if data := f.marshalObject("Want", o, nil, applySettings{}); data != nil {
			f.desired = append(f.desired, data)
		}
	}
}

// hook makes a hook.Hook of a function.
func (c *Composer[T]) hook(fn ComposeFunc[T]) hook.Hook {
	return hook.Func(func(ctx context.Context, req *hook.Request) (*hook.Response, error) {
		if err := c.c.app.waitForIndexes(ctx); err != nil {
			return nil, err
		}
		f, err := newComposeContext[T](&c.c, req)
		if err != nil {
			return nil, err
		}
		w := c.c.app.inFlight.begin("function", hookFunctionName(req), &f.objectContext)
		defer c.c.app.inFlight.end(w)
		if err := fn(ctx, f); err != nil {
			return nil, err
		}
		return f.buildResponse()
	})
}

// hookFunctionName is the name of the function that a request is for.
func hookFunctionName(req *hook.Request) string {
	if req.Finalizing {
		return nameFinalize
	}
	return nameSync
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

// buildResponse is what the function wants to be.
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

// resyncAfter is when to call again; 0 for not before something changes. At once is in a
// second: a zero delay would call without a pause.
func (f *ComposeContext[T]) resyncAfter() time.Duration {
	if f.report.requeueAfter == hook.Immediately {
		return time.Second
	}
	return f.report.requeueAfter
}

// hasNoChildren says that there are no children.
func (f *ComposeContext[T]) hasNoChildren() bool {
	for _, group := range f.request.Children {
		if len(group.Objects) > 0 {
			return false
		}
	}
	return true
}

// desiredStatus is the whole status that the parent should have: what the function made
// of it, and what the type does not know as it was.
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
		return nil, permanentError("the function changed the parent by %s: of a parent, only the status can be changed", patch)
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
	was := jsonObject{}
	if former != nil {
		if was, err = readJSONObject(former); err != nil {
			return nil, err
		}
	}
	changes, err := readJSONObject(status)
	if err != nil {
		return nil, err
	}
	return json.Marshal(was.withPatch(changes))
}
