package inspect

import (
	"encoding/json"
	"slices"
	"strings"
)

// unreadable is what is said in place of what the reader may not read.
const unreadable = "you may not read these"

// Redact is a run without what its reader may not read: whole objects in requests and
// replies are replaced by what they are called, and the fields that change in them are
// left out, and so is what the API server said of a write to them. Of a run about an
// object that may not be read itself, neither causes nor errors are left, nor anything
// that was asked, answered or told; what was written to others stays as far as those may
// be read. The names of objects stay in steps.
//
// may says whether objects of a kind in a namespace may be read; the plural of the kind
// is empty where the run does not know it.
func Redact(run Run, may func(kind Kind, namespace string) bool) Run {
	r := redactor{may: may, plurals: pluralsOf(&run), home: run.Object.Namespace, asked: map[place]bool{}}
	own := r.mayRead(run.Object.Kind, run.Object.Namespace)
	if !own && len(run.Causes) > 0 {
		run.Causes = []string{unreadable}
	}
	r.refusals = r.unreadRefusals(run.Steps, own)
	if run.Error != "" && (!own || len(r.refusals) > 0) {
		r.refusals = append(r.refusals, run.Error)
		run.Error, run.Fault = unreadable, nil
	}
	steps := make([]Step, len(run.Steps))
	for i, step := range run.Steps {
		steps[i] = r.step(step, own)
	}
	run.Steps = steps
	return run
}

// redactor knows what one reader may read.
type redactor struct {
	may     func(Kind, string) bool
	plurals map[groupKind]Kind
	// home is the namespace of the run's object.
	home string
	// asked are the answers so far: the same few kinds come again and again.
	asked map[place]bool
	// refusals are errors that must not be told again elsewhere.
	refusals []string
}

// unreadRefusals are the errors of writes that the reader may not know of.
func (r *redactor) unreadRefusals(steps []Step, own bool) []string {
	var all []string
	for i := range steps {
		if w := steps[i].Write; w != nil && w.Error != "" && (!own || !r.mayRead(w.Object.Kind, w.Object.Namespace)) {
			all = append(all, w.Error)
		}
	}
	return all
}

// telling is how much of an error is enough to know it again: its end may be cut off.
const telling = 40

// retells says whether a text has one of the errors in it.
func (r *redactor) retells(text string) bool {
	return slices.ContainsFunc(r.refusals, func(refusal string) bool {
		return strings.Contains(text, refusal[:min(len(refusal), telling)])
	})
}

type groupKind struct{ group, kind string }

type place struct {
	groupKind
	namespace string
}

func (r *redactor) mayRead(kind Kind, namespace string) bool {
	at := place{groupKind{kind.Group, kind.Kind}, namespace}
	known, is := r.asked[at]
	if !is {
		known = r.may(kind, namespace)
		r.asked[at] = known
	}
	return known
}

// pluralsOf are the kinds that a run names with their plurals.
func pluralsOf(run *Run) map[groupKind]Kind {
	known := map[groupKind]Kind{}
	note := func(ref *Ref) { known[groupKind{ref.Group, ref.Kind.Kind}] = ref.Kind }
	note(&run.Object)
	for i := range run.Steps {
		if w := run.Steps[i].Write; w != nil {
			note(&w.Object)
		}
		if p := run.Steps[i].Plan; p != nil {
			for j := range p.Actions {
				note(&p.Actions[j].Object)
			}
		}
	}
	return known
}

// step is a step as far as it may be read; own says whether the object of the run may.
func (r *redactor) step(step Step, own bool) Step {
	switch {
	case step.Ask != nil:
		ask := *step.Ask
		ask.Request, ask.Reply = r.text(ask.Request, own), r.text(ask.Reply, own)
		if !own && ask.Error != "" {
			ask.Error, ask.Fault = unreadable, nil
		}
		if ask.Review != nil && !own {
			ask.Review = &Review{Operation: ask.Review.Operation, DryRun: ask.Review.DryRun, Denied: ask.Review.Denied}
		}
		step.Ask = &ask
	case step.Plan != nil:
		step.Plan = r.plan(step.Plan)
	case step.Write != nil:
		step.Write = r.write(*step.Write, own)
	case step.Event != nil && (!own || r.retells(step.Event.Message)):
		event := *step.Event
		event.Message = unreadable
		step.Event = &event
	}
	return step
}

func (r *redactor) write(write Write, own bool) *Write {
	readable := r.mayRead(write.Object.Kind, write.Object.Namespace)
	if !readable {
		write.Changes = nil
	}
	if write.Error != "" && (!own || !readable) {
		write.Error, write.Fault = unreadable, nil
	}
	return &write
}

func (r *redactor) plan(p *Planned) *Planned {
	planned := Planned{Equal: p.Equal}
	for _, action := range p.Actions {
		if !r.mayRead(action.Object.Kind, action.Object.Namespace) {
			action.Reason, action.Changes = unreadable, nil
		}
		planned.Actions = append(planned.Actions, action)
	}
	return &planned
}

// text is what was asked or answered, as far as it may be read.
func (r *redactor) text(text json.RawMessage, own bool) json.RawMessage {
	switch {
	case text == nil:
		return nil
	case !own:
		return textOf(map[string]any{"hidden": unreadable})
	}
	return edited(text, r.object)
}

// object is a value of JSON as it may be read: objects stand for themselves, or for
// what they are called.
func (r *redactor) object(value any) any {
	members, is := value.(map[string]any)
	if !is {
		return value
	}
	apiVersion, kind := typeOf(members)
	metadata, has := members["metadata"].(map[string]any)
	if apiVersion == "" || kind == "" || !has {
		return value
	}
	called, namespace := r.kindOf(apiVersion, kind), ""
	if said, is := metadata["namespace"].(string); is {
		namespace = said
	} else if called.Namespaced {
		// A reply need not say what goes without saying.
		namespace = r.home
	}
	if r.mayRead(called, namespace) {
		return value
	}
	names := map[string]any{}
	for _, name := range [...]string{"name", "namespace"} {
		if metadata[name] != nil {
			names[name] = metadata[name]
		}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": names, "hidden": unreadable}
}

func (r *redactor) kindOf(apiVersion, kind string) Kind {
	group, version, named := strings.Cut(apiVersion, "/")
	if !named {
		group, version = "", apiVersion
	}
	if known, is := r.plurals[groupKind{group, kind}]; is {
		return known
	}
	return Kind{Group: group, Version: version, Kind: kind}
}
