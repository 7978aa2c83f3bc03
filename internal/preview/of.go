package preview

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Of is what a controller of a process would do about an object now: the same as Run
// says of one that is named. It is the Plan of host.Options.
func Of(ctx context.Context, h *host.Host, controller string, ref inspect.Ref) (inspect.Plan, error) {
	r, err := h.RehearseNamed(ctx, controller)
	if err != nil {
		return inspect.Plan{}, err
	}
	defer r.Close()
	if err := await(ctx, r, time.Minute); err != nil {
		return inspect.Plan{}, err
	}
	i := programFor(r, ref)
	if i < 0 {
		return inspect.Plan{}, fmt.Errorf("%s does not care for a %s of that place: %w", controller, ref.Kind.Kind, inspect.ErrNotFound)
	}
	s := subject{program: i, key: keyIn(r.Kinds()[i], ref.Namespace, ref.Name)}
	c := Controller{Name: controller, Objects: []Object{s.look(ctx, r)}}
	c.ofRehearsal(r)
	c.hold(r)
	report := Report{Controllers: []Controller{c}}
	report.sum()
	report.hint(running)
	return report.inspected()
}

// programFor finds the program that an object is for; less than 0 for none.
func programFor(r *host.Rehearsal, ref inspect.Ref) int {
	for i, resource := range r.Kinds() {
		if resource.Group == ref.Group && resource.Kind == ref.Kind.Kind && r.Covers(i, ref.Namespace) {
			return i
		}
	}
	return -1
}

// inspected is a report in its two forms.
func (r Report) inspected() (inspect.Plan, error) {
	var text bytes.Buffer
	if err := r.WriteText(&text, Style{Idle: true}); err != nil {
		return inspect.Plan{}, err
	}
	data, err := json.Marshal(r)
	return inspect.Plan{Text: text.String(), Report: data, Refs: r.refs()}, err
}

// refs are all objects that a report says something of, each once.
func (r Report) refs() []inspect.Ref {
	var all []inspect.Ref
	seen := map[Ref]bool{}
	note := func(ref Ref) {
		if !seen[ref] {
			seen[ref] = true
			all = append(all, ref.inspected())
		}
	}
	for _, c := range r.Controllers {
		for i := range c.Objects {
			c.Objects[i].each(note)
		}
	}
	return all
}

// each names the object, and all that is said of others beside it.
func (o *Object) each(note func(Ref)) {
	note(o.Ref)
	changes := o.Changes
	for _, call := range o.Calls {
		changes = slices.Concat(changes, call.Changes)
		for _, same := range call.Same {
			note(same)
		}
	}
	for i := range changes {
		note(changes[i].Ref)
	}
}

func (r Ref) inspected() inspect.Ref {
	group := object.GroupOf(r.APIVersion)
	kind := inspect.Kind{Group: group, Version: strings.TrimPrefix(r.APIVersion, group+"/"), Kind: r.Kind, Namespaced: r.Namespace != ""}
	return inspect.Ref{Kind: kind, Namespace: r.Namespace, Name: r.Name}
}
