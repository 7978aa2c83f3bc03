package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/timeline"
)

// subject is the object that a page is about, as its visitor may see it.
type subject struct {
	inspect.Ref
	// Gone says that it is there no more: what is known of it is the past.
	Gone bool
	Meta metav1.ObjectMeta
	// Conditions are those of its status.
	Conditions []metav1.Condition
	// raw is all of it; nil if it is Gone.
	raw json.RawMessage
}

// URL is its page, or one below it.
func (s *subject) URL(below ...string) string { return objectURL(s.Ref, below...) }

// objectPage is what the page of an object shows.
type objectPage struct {
	*subject
	Owners  []owner
	Cares   []careView
	Actions []action
	Tree    tree
	Entries []entry
	// NeverStored says that the object is not there since its creation was denied.
	NeverStored bool
	// Deletion ends the timeline; nil where there is none.
	Deletion *timeline.Ending
	// Older is where more of the timeline is; "" if this is all.
	Older  string
	Events eventList
	// Apology is why not all is shown that is known of its controllers.
	Apology []string
	// Caveats say what is not known here of what was done.
	Caveats []string
	// Tab is "timeline" or "yaml".
	Tab string
}

// How many entries a page shows at first, and how many runs are all that are asked for.
const (
	someEntries = 20
	allRuns     = 500
)

func showObject(v *visit) error { return v.object(someEntries) }

func showTimeline(v *visit) error { return v.object(allRuns) }

func (v *visit) object(limit int) error {
	s, err := v.subject()
	if err != nil {
		return err
	}
	p := objectPage{subject: s, Tab: "timeline"}
	runs, missing := v.runsOf(s, allRuns)
	p.end(runs)
	p.apologize(missing...)
	p.Entries = v.entries(s, runs, limit+1)
	if len(p.Entries) > limit {
		p.Entries, p.Older = p.Entries[:limit], s.URL("timeline")
	}
	if err := v.surround(&p); err != nil {
		return err
	}
	return v.render(page{
		Name: "object", Title: s.Kind.Kind + " " + s.Name, Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

// end says what is known of the deletion of the object.
func (p *objectPage) end(runs []inspect.Run) {
	switch at := p.Meta.DeletionTimestamp; {
	case p.Gone && timeline.NeverStored(runs):
		p.NeverStored = true
	case p.Gone:
		p.Deletion = timeline.Gone(runs)
	case at != nil:
		p.Deletion = timeline.Deleting(at.Time, p.Meta.DeletionGracePeriodSeconds, p.Meta.Finalizers)
	}
}

// surround adds what is about the object now.
func (v *visit) surround(p *objectPage) error {
	s := p.subject
	cares, silent := v.about(s.Ref)
	p.apologize(silent...)
	if s.Gone && len(cares)+len(p.Entries)+len(silent) == 0 {
		return missing("%s %s is not there, and nothing is known of it.", s.Kind.Kind, s.Name)
	}
	told := v.carers(cares)
	p.Cares, p.Caveats = careViews(cares, told, p.Entries), caveats(told)
	p.Owners = v.owners(s)
	p.Actions = v.actions(s, cares)
	var err error
	if p.Tree, err = v.tree(s, cares); err != nil {
		return err
	}
	if p.Events.All, err = v.api.Events(v.context(), s.Ref); err != nil {
		p.Events.Problem = problemOf(err)
	}
	return nil
}

// eventList are the events of an object, or why they are not shown.
type eventList struct {
	All     []asuser.Event
	Problem *problem
}

// Ran says that a controller has reconciled the object.
func (p objectPage) Ran() bool {
	return slices.ContainsFunc(p.Cares, func(c careView) bool { return !c.Ran.IsZero() })
}

// apologize notes why something is not shown.
func (p *objectPage) apologize(why ...string) {
	for _, text := range why {
		if !slices.Contains(p.Apology, text) {
			p.Apology = append(p.Apology, text)
		}
	}
}

// subject is the object of the address. One that is gone is known by its past, to who
// might read it if it were there.
func (v *visit) subject() (*subject, error) {
	kind, err := v.api.Kind(v.context(), v.path("resource"))
	if err != nil {
		return nil, err
	}
	s := &subject{Ref: inspect.Ref{Kind: kind, Namespace: v.path("namespace"), Name: v.path("name")}}
	if s.Namespace == noNamespace {
		s.Namespace = ""
	}
	if kind.Namespaced == (s.Namespace == "") {
		return nil, missing("%s are %s.", kind.Plural, map[bool]string{true: "in namespaces", false: "in no namespace"}[kind.Namespaced])
	}
	raw, err := v.api.Get(v.context(), kind, s.Namespace, s.Name)
	switch {
	case errors.Is(err, inspect.ErrNotFound) && v.may("get", kind, s.Namespace, s.Name):
		s.Gone = true
		return s, nil
	case v.doubt.reason() != nil:
		return nil, v.doubt.reason()
	case err != nil:
		return nil, err
	}
	if err := s.read(raw); err != nil {
		return nil, err
	}
	return s, nil
}

// read takes from an object what its page shows in words.
func (s *subject) read(raw json.RawMessage) error {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("understand %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	s.raw, s.Meta, s.UID = raw, o.Metadata, string(o.Metadata.UID)
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	// Conditions of a kind of its own may be something else.
	if json.Unmarshal(raw, &status) == nil {
		s.Conditions = status.Status.Conditions
	}
	return nil
}

// owner is an object that another is a part of.
type owner struct {
	inspect.Ref
	Controller bool
}

// owners are those whose kinds are served.
func (v *visit) owners(s *subject) []owner {
	var found []owner
	for _, o := range s.Meta.OwnerReferences {
		group, _, grouped := strings.Cut(o.APIVersion, "/")
		name := strings.ToLower(o.Kind)
		if grouped {
			name += "." + group
		}
		kind, err := v.api.Kind(v.context(), name)
		if err != nil {
			continue
		}
		ref := inspect.Ref{Kind: kind, Name: o.Name, UID: string(o.UID)}
		if kind.Namespaced {
			ref.Namespace = s.Namespace
		}
		found = append(found, owner{Ref: ref, Controller: o.Controller != nil && *o.Controller})
	}
	return found
}

// reads says whether the visitor may read objects of a kind, whose plural need not be
// known.
func (v *visit) reads(kind inspect.Kind, namespace string) bool {
	if v.own() {
		return true
	}
	if kind.Plural == "" {
		served, err := v.api.Kind(v.context(), strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, "."))
		if err != nil {
			if errors.Is(err, asuser.ErrUnreachable) {
				v.doubt.note(err)
			}
			return false
		}
		kind = served
	}
	return v.may("get", kind, namespace, "")
}
