package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ForObject returns what a controller of a running process would do to an object now, or to the
// object as a user would store it. It is the Plan of manager.Options.
func ForObject(ctx context.Context, m *manager.Manager, controller string, ref object.Ref, edited json.RawMessage) (inspect.Plan, error) {
	manifest, err := parseEdited(edited, ref)
	if err != nil {
		return inspect.Plan{}, err
	}
	compiled, err := m.CompileNamed(ctx, controller)
	if err != nil {
		return inspect.Plan{}, err
	}
	r, err := start(m, compiled, "")
	if err != nil {
		return inspect.Plan{}, err
	}
	defer r.Close()
	if err := r.waitForSync(ctx, time.Minute); err != nil {
		return inspect.Plan{}, err
	}
	l := r.loopFor(ref)
	if l == nil {
		return inspect.Plan{}, fmt.Errorf("%s does not manage this %s: %w", controller, ref.Kind.Kind, failure.ErrNotFound)
	}
	if served := l.kind.APIVersion(); manifest != nil && manifest.APIVersion() != served {
		return inspect.Plan{}, fmt.Errorf("%s reads %s in version %s, and cannot plan for an edit in version %s",
			controller, ref.Kind.Kind, served, manifest.APIVersion())
	}
	s := target{loop: l, key: objectKey(l.kind, ref.Namespace, ref.Name), manifest: manifest}
	c := Controller{Name: controller, Objects: []Object{s.dryRun(ctx, r)}}
	c.setController(r)
	c.holdDeletions(r)
	report := Report{Controllers: []Controller{c}}
	report.summarize()
	report.hint(processHint)
	return report.model()
}

// parseEdited returns an object as a user would store it; nil for none.
func parseEdited(edited json.RawMessage, ref object.Ref) (*object.Object, error) {
	if edited == nil {
		return nil, nil //nolint:nilnil // The stored object is planned.
	}
	o, err := object.Parse(edited)
	if err != nil {
		return nil, fmt.Errorf("plan for an edited %s: %w", ref.Kind.Kind, err)
	}
	if o.Name() != ref.Name || o.Namespace() != ref.Namespace {
		return nil, fmt.Errorf("plan for %s: the edited object is %s", ref, o.Ref())
	}
	return o, nil
}

// model returns the report as text and JSON.
func (r Report) model() (inspect.Plan, error) {
	var text bytes.Buffer
	if err := r.WriteText(&text, Style{Idle: true}); err != nil {
		return inspect.Plan{}, err
	}
	data, err := json.Marshal(r)
	return inspect.Plan{Text: text.String(), Report: data, Refs: r.refs()}, err
}

// refs returns all objects in the report without duplicates.
func (r Report) refs() []object.Ref {
	var all []Ref
	for _, c := range r.Controllers {
		for i := range c.Objects {
			o := &c.Objects[i]
			all = append(all, o.Ref)
			for _, call := range o.Calls {
				all = append(all, call.Unchanged...)
			}
			o.eachChange(func(c *Change) { all = append(all, c.Ref) })
		}
	}
	return lists.Map(lists.Union(nil, all), Ref.ref)
}
