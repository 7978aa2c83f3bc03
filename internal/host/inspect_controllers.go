package host

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// subject is a controller as it is inspected.
type subject struct {
	name string
	state
	// stored is the object that declares it, as it is now; nil without one. former
	// is the status it was given, and crd what is known of its CRD.
	stored   *object.Object
	former   setpoint.ControllerStatus
	crd      finding
	resource object.Resource
}

// subjects are all controllers, sorted by name.
func (f *fleet) subjects() []subject {
	f.mu.Lock()
	members := maps.Clone(f.members)
	f.mu.Unlock()
	all := make([]subject, 0, len(members))
	for key, m := range members {
		f.mu.Lock()
		s, written := subject{name: key.String(), state: m.state}, m.reported
		f.mu.Unlock()
		if kind := f.kinds[key.Namespace]; kind != nil {
			s.resource = kind.Resource
			if s.stored = kind.view.Get("", key.Name); s.stored != nil {
				s.former, s.crd = written.former(s.stored), f.host.upkeep.finding(kind.Kind)
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b subject) int { return cmp.Compare(a.name, b.name) })
	return all
}

// called finds a controller by its name; nil if there is none.
func (f *fleet) called(name string) *subject {
	all := f.subjects()
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

// Controllers implements inspect.Source.
func (s *source) Controllers(context.Context) ([]inspect.Controller, error) {
	all := []inspect.Controller{}
	for _, one := range s.host.fleet.subjects() {
		all = append(all, s.controller(&one))
	}
	return all, nil
}

// controller puts one into words.
func (s *source) controller(one *subject) inspect.Controller {
	c := inspect.Controller{
		Name: one.name, Process: s.Name(), Kinds: []inspect.Kind{}, Words: []string{},
		Notes: one.notes, Suspended: one.suspended,
		Calls: s.host.book.Calls(one.name), Series: s.host.book.Series(one.name, time.Now()),
	}
	if one.object != nil {
		declared := inspect.RefOf(one.resource, one.object)
		c.Declared = &declared
	}
	if one.suspended {
		c.Kinds, c.Children, c.Keeps = one.kinds, one.children, one.keeps
	}
	var health engine.Health
	if r := one.running; r != nil {
		health = r.health()
		c.Kinds, c.Children = kindsInspected(r.Compiled)
		c.Keeps = kindsKept(r.Compiled)
		c.Everywhere = len(r.Programs)+len(r.Reactions) == 0
		c.Words = inspect.Does(inspect.Programs{Hooks: r.Programs, Handlers: r.Reactions, Reviews: r.Admission, Addresses: r.HookAddresses})
	}
	c.Objects, c.Owned, c.Failing = health.Parents, health.Children, health.InError
	c.Paused, c.Unsettled, c.Held, c.AllowDeletions = health.Paused, health.Unsettled, health.Held.Deletions, health.Held.Value
	if !s.host.options.LeaderElection.Enabled || s.host.office.leads() || c.Everywhere {
		addQueue(&c.Queue, health.Queue) // Who stands by has everything queued, and runs nothing.
	}
	c.Last = inspect.FailureOf(health.Last)
	c.Conditions = s.conditions(one, health)
	if s.standsBy(one) {
		asTold(&c, one)
	}
	return c
}

// standsBy says that another process is at work for a controller that is declared by
// an object, and says there how it is doing.
func (s *source) standsBy(one *subject) bool {
	return one.stored != nil && s.host.options.LeaderElection.Enabled && !s.host.office.leads()
}

// asTold adds what the leader says in the status.
func asTold(c *inspect.Controller, one *subject) {
	told := formerStatus(one.stored)
	c.Owned, c.Failing, c.Paused = int(told.Children), int(told.ParentsInError), int(told.Paused)
	if held := told.HeldDeletions; held != nil {
		c.Held, c.AllowDeletions = int(held.Count), held.Value
	}
	if last := told.LastError; last != nil {
		c.Last = &inspect.Failure{Message: last.Message, Object: last.Object, Time: last.Time.Time}
	}
}

// conditions are those of the status, which are judged anew by who is at work.
func (s *source) conditions(one *subject, health engine.Health) []inspect.Condition {
	switch {
	case s.standsBy(one):
		return inspected(formerStatus(one.stored).Conditions)
	case one.stored != nil && one.object != nil:
		m := member{state: one.state}
		return inspected(m.status(one.former, one.crd).Conditions)
	}
	verdict := accepted(one.refusal, one.notes, health)
	findings := []metav1.Condition{verdict.condition("Accepted", 0), ready(verdict, &one.state, health).condition("Ready", 0)}
	if health.Held.Deletions > 0 {
		findings = append(findings, deletionsHeld(one.name, health.Held).condition("DeletionsHeld", 0))
	}
	if health.Unsettled > 0 {
		findings = append(findings, settled(health).condition("Settled", 0))
	}
	return inspected(findings)
}

func inspected(all []metav1.Condition) []inspect.Condition {
	conditions := []inspect.Condition{}
	for _, c := range all {
		conditions = append(conditions, inspect.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		})
	}
	return conditions
}

// kindsInspected are the kinds of a controller's objects, and of what it makes of them or
// may write beside.
func kindsInspected(r *compile.Compiled) (kinds, children []inspect.Kind) {
	kinds = []inspect.Kind{}
	for _, p := range r.Programs {
		kinds = append(kinds, inspect.KindOf(p.Parent))
		for _, rule := range p.Children {
			children = append(children, inspect.KindOf(rule.Resource))
		}
	}
	for _, p := range r.Reactions {
		kinds = append(kinds, inspect.KindOf(p.Resource))
		for _, owned := range p.Owns {
			children = append(children, inspect.KindOf(owned))
		}
		for _, w := range p.Writes {
			children = append(children, inspect.KindOf(w.Resource))
		}
	}
	for _, asked := range r.Asked {
		kinds = append(kinds, inspect.KindOf(asked))
	}
	return unique(kinds), unique(children)
}

// kindsKept are the kinds in which a controller keeps what it has to remember of its objects,
// which own that.
func kindsKept(r *compile.Compiled) []inspect.Kind {
	rolling := slices.ContainsFunc(r.Programs, func(p engine.Program) bool { return p.Children.Rolling() })
	if !rolling && !slices.ContainsFunc(r.Reactions, func(p react.Program) bool { return p.KeepsOld() }) {
		return nil
	}
	return []inspect.Kind{inspect.KindOf(plan.ControllerRevisions)}
}

// unique are the kinds, each once.
func unique(kinds []inspect.Kind) []inspect.Kind {
	slices.SortFunc(kinds, func(a, b inspect.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(kinds)
}
