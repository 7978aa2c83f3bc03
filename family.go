package setpoint

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// Family is a parent with its children as they are, and is told by a FamilyFunc
// what they should be. It is for one goroutine at a time, and not to be kept.
type Family[T any] struct {
	// Parent is the parent as it is. It is the function's own; the changes that are
	// made to its status are written, those to the rest of it refused.
	Parent *T
	// Finalizing says that the parent is going away, or does not match any longer.
	Finalizing bool
	// Log has the names of the controller and the parent.
	Log *slog.Logger

	statement

	request *hook.Request
	before  []byte
	want    []json.RawMessage
}

// Children finds the children of one kind that Owns declares. Into points to a
// slice of the kind's type, such as *[]corev1.Pod, and is emptied first;
// *[]Unstructured takes those of all kinds. They are sorted by namespace and name.
func (f *Family[T]) Children(into any) { f.find("Children", f.request.Children, into) }

// Related finds the objects of one kind that Customize asked for, like Children.
func (f *Family[T]) Related(into any) { f.find("Related", f.request.Related, into) }

func (f *Family[T]) find(verb string, groups []hook.Group, into any) {
	if err := f.controller.read(verb, groups, into); err != nil {
		f.problems = append(f.problems, err)
	}
}

// Child is the child of type C with a name, in the namespace of its parent; nil if
// there is none.
func Child[C, T any](f *Family[T], name string) *C {
	var all []C
	f.Children(&all)
	for i := range all {
		if o, err := identify(&all[i]); err == nil && o.Metadata.Name == name && o.Metadata.Namespace == f.handled.Namespace {
			return &all[i]
		}
	}
	return nil
}

// Want adds children to those that should be. Each is of a kind that Owns
// declares. Without a namespace it is in that of the parent. Without a name it is
// named like the parent; with a generateName it gets a name beginning so that
// stays the same as long as it is wanted in the same place of the answer. Objects
// of one kind need different names.
func (f *Family[T]) Want(objects ...any) {
	for _, o := range objects {
		if data := f.prepare("Want", o, nil, applying{}); data != nil {
			f.want = append(f.want, data)
		}
	}
}

// hook makes a hook.Hook of a function.
func (c *Composer[T]) hook(do FamilyFunc[T]) hook.Hook {
	return hook.Func(func(ctx context.Context, req *hook.Request) (*hook.Response, error) {
		if err := c.c.app.filled(ctx); err != nil {
			return nil, err
		}
		f, err := newFamily[T](&c.c, req)
		if err != nil {
			return nil, err
		}
		w := c.c.app.underway.begin("function", asked(req), &f.statement)
		defer c.c.app.underway.end(w)
		if err := do(ctx, f); err != nil {
			return nil, err
		}
		return f.response()
	})
}

// asked is the name of the function that a request is for.
func asked(req *hook.Request) string {
	if req.Finalizing {
		return nameFinalize
	}
	return nameSync
}

func newFamily[T any](c *controller, req *hook.Request) (*Family[T], error) {
	f := &Family[T]{Finalizing: req.Finalizing, request: req}
	var err error
	if f.Parent, err = decode[T](req.Parent); err != nil {
		return nil, err
	}
	if f.statement, err = newStatement(c, "children", f.Parent, req.Parent); err != nil {
		return nil, err
	}
	if f.before, err = json.Marshal(f.Parent); err != nil {
		return nil, permanently("write the parent as JSON: %w", err)
	}
	f.Log = f.log()
	return f, nil
}

// response is what the function wants to be.
func (f *Family[T]) response() (*hook.Response, error) {
	status, err := f.status()
	if err != nil {
		f.problems = append(f.problems, err)
	}
	if err := f.wrong(); err != nil {
		return nil, err
	}
	return &hook.Response{
		Status: status, Children: f.want, ResyncAfter: f.resyncAfter(),
		Finalized: f.Finalizing && len(f.want) == 0 && f.said.again == 0 && f.alone(),
		Events:    f.said.events, Conditions: f.said.conditions, Message: f.said.message,
	}, nil
}

// resyncAfter is when to call again; 0 for not before something changes. At once is in a
// second: a zero delay would call without a pause.
func (f *Family[T]) resyncAfter() time.Duration {
	if f.said.again == hook.Immediately {
		return time.Second
	}
	return f.said.again
}

// alone says that there are no children.
func (f *Family[T]) alone() bool {
	for _, group := range f.request.Children {
		if len(group.Objects) > 0 {
			return false
		}
	}
	return true
}

// status is the whole status that the parent should have: what the function made
// of it, and what the type does not know as it was.
func (f *Family[T]) status() (json.RawMessage, error) {
	after, err := json.Marshal(f.Parent)
	if err != nil {
		return nil, err
	}
	patch, status, err := patches(f.before, after)
	if err != nil {
		return nil, err
	}
	if patch != nil {
		return nil, permanently("the function changed the parent by %s: of a parent, only the status can be changed", patch)
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
	was := tree{}
	if former != nil {
		if was, err = readTree(former); err != nil {
			return nil, err
		}
	}
	changes, err := readTree(status)
	if err != nil {
		return nil, err
	}
	return json.Marshal(was.merged(changes))
}
