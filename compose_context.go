package setpoint

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/sdk"
	"github.com/setpoint-dev/setpoint/internal/sdk/mergepatch"
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
func (f *ComposeContext[T]) Children(into any) {
	f.call.ReadGroups("Children", f.request.Children, into)
}

// Related reads the related objects of one kind that Customize selected, like Children.
func (f *ComposeContext[T]) Related(into any) { f.call.ReadGroups("Related", f.request.Related, into) }

// Child returns the child of type C with a name in the namespace of its parent, or nil.
func Child[C, T any](f *ComposeContext[T], name string) *C {
	var all []C
	f.Children(&all)
	for i := range all {
		if o, err := sdk.Identify(&all[i]); err == nil && o.Name == name && o.Namespace == f.call.Metadata.Namespace {
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
		if data := f.call.Child(o); data != nil {
			f.desired = append(f.desired, data)
		}
	}
}

func newComposeContext[T any](c *sdk.Controller, req *hook.Request) (*ComposeContext[T], error) {
	f := &ComposeContext[T]{Finalizing: req.Finalizing, request: req}
	f.call = sdk.NewInvocation(c, "children")
	var err error
	if f.Parent, err = sdk.Decode[T](req.Parent); err != nil {
		return nil, err
	}
	if err := f.call.ReadMetadata(f.Parent, req.Parent); err != nil {
		return nil, err
	}
	if f.before, err = json.Marshal(f.Parent); err != nil {
		return nil, sdk.Permanentf("write the parent as JSON: %w", err)
	}
	f.Log = f.call.ObjectLogger()
	return f, nil
}

func (f *ComposeContext[T]) buildResponse() (*hook.Response, error) {
	status, err := f.desiredStatus()
	f.call.AddProblem(err)
	if err := f.call.Problems(); err != nil {
		return nil, err
	}
	out := &f.call.Output
	hasChildren := slices.ContainsFunc(f.request.Children, func(g hook.Group) bool { return len(g.Objects) > 0 })
	return &hook.Response{
		Status: status, Children: f.desired, ResyncAfter: f.resyncAfter(),
		Finalized: f.Finalizing && len(f.desired) == 0 && out.RequeueAfter == 0 && !hasChildren,
		Events:    out.Events, Conditions: out.Conditions, Message: out.Message,
	}, nil
}

// resyncAfter returns when to call the function again; 0 means at the next change.
// Immediately means after a second, because a zero delay would call it without a pause.
func (f *ComposeContext[T]) resyncAfter() time.Duration {
	if f.call.Output.RequeueAfter == hook.Immediately {
		return time.Second
	}
	return f.call.Output.RequeueAfter
}

// desiredStatus returns the whole status of the parent: the status that the function set,
// and the fields that its type does not have.
func (f *ComposeContext[T]) desiredStatus() (json.RawMessage, error) {
	after, err := json.Marshal(f.Parent)
	if err != nil {
		return nil, err
	}
	patch, status, err := mergepatch.Between(f.before, after)
	if err != nil {
		return nil, err
	}
	if patch != nil {
		return nil, sdk.Permanentf("the function changed the parent by %s: only the status can be changed", patch)
	}
	return mergepatch.WholeStatus(f.request.Parent, status)
}
