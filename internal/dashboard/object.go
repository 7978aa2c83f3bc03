package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// pageObject is the object that a page is about, as its visitor may see it.
type pageObject struct {
	model.Ref
	// Deleted says that it is there no more: what is known of it is the past.
	Deleted bool
	Meta    metav1.ObjectMeta
	// Conditions are those of its status.
	Conditions []metav1.Condition
	// raw is all of it; nil if it is Gone.
	raw json.RawMessage
}

// URL is its page, or one below it.
func (s *pageObject) URL(below ...string) string { return objectURL(s.Ref, below...) }

// objectPage is what the page of an object shows.
type objectPage struct {
	*pageObject
	Owners  []owner
	States  []stateView
	Actions []action
	Tree    tree
	Entries []entry
	// NeverStored says that the object is not there since its creation was denied.
	NeverStored bool
	// Deletion ends the timeline; nil where there is none.
	Deletion *timeline.Deletion
	// OlderURL is where more of the timeline is; "" if this is all.
	OlderURL string
	Events   eventList
	// Warnings is why not all is shown that is known of its controllers.
	Warnings []string
	// Caveats say what is not known here of what was done.
	Caveats []string
	// Tab is "timeline" or "yaml".
	Tab string
}

// How many entries a page shows at first, and how many runs are all that are asked for.
const (
	firstEntries = 20
	maxRuns      = 500
)

func showObject(req *request) error { return req.renderObject(firstEntries) }

func showTimeline(req *request) error { return req.renderObject(maxRuns) }

func (req *request) renderObject(limit int) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	p := objectPage{pageObject: s, Tab: "timeline"}
	runs, missing := req.fetchRuns(s, maxRuns)
	p.setDeletion(runs)
	p.addWarnings(missing...)
	p.Entries = req.timelineEntries(s, runs, limit+1)
	if len(p.Entries) > limit {
		p.Entries, p.OlderURL = p.Entries[:limit], s.URL("timeline")
	}
	if err := req.loadDetails(&p); err != nil {
		return err
	}
	return req.render(page{
		Name: "object", Title: s.Kind.Kind + " " + s.Name, Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

// setDeletion says what is known of the deletion of the object.
func (p *objectPage) setDeletion(runs []model.Run) {
	switch at := p.Meta.DeletionTimestamp; {
	case p.Deleted && timeline.NeverStored(runs):
		p.NeverStored = true
	case p.Deleted:
		p.Deletion = timeline.CompletedDeletion(runs)
	case at != nil:
		p.Deletion = timeline.PendingDeletion(at.Time, p.Meta.DeletionGracePeriodSeconds, p.Meta.Finalizers)
	}
}

// loadDetails adds what is about the object now.
func (req *request) loadDetails(p *objectPage) error {
	s := p.pageObject
	states, unavailable := req.objectStates(s.Ref)
	p.addWarnings(unavailable...)
	if s.Deleted && len(states)+len(p.Entries)+len(unavailable) == 0 {
		return notFound("%s %s does not exist, and has no history.", s.Kind.Kind, s.Name)
	}
	processes := req.managingProcesses(states)
	p.States, p.Caveats = stateViews(states, processes, p.Entries), caveats(processes)
	p.Owners = req.owners(s)
	p.Actions = req.actions(s, states)
	var err error
	if p.Tree, err = req.tree(s, states); err != nil {
		return err
	}
	if p.Events.All, err = req.api.Events(req.context(), s.Ref); err != nil {
		p.Events.Problem = problemOf(err)
	}
	return nil
}

// eventList are the events of an object, or why they are not shown.
type eventList struct {
	All     []userclient.Event
	Problem *problem
}

// HasRun says that a controller has reconciled the object.
func (p objectPage) HasRun() bool {
	return slices.ContainsFunc(p.States, func(c stateView) bool { return !c.Ran.IsZero() })
}

// addWarnings notes why something is not shown.
func (p *objectPage) addWarnings(why ...string) {
	for _, text := range why {
		if !slices.Contains(p.Warnings, text) {
			p.Warnings = append(p.Warnings, text)
		}
	}
}

// loadObject is the object of the address. One that is gone is known by its past, to who
// might read it if it were there.
func (req *request) loadObject() (*pageObject, error) {
	kind, err := req.api.Kind(req.context(), req.path("resource"))
	if err != nil {
		return nil, err
	}
	s := &pageObject{Ref: model.Ref{Kind: kind, Namespace: req.path("namespace"), Name: req.path("name")}}
	if s.Namespace == noNamespace {
		s.Namespace = ""
	}
	if kind.Namespaced == (s.Namespace == "") {
		return nil, notFound("%s are %s.", kind.Plural, map[bool]string{true: "namespaced", false: "cluster-scoped"}[kind.Namespaced])
	}
	raw, err := req.api.Get(req.context(), kind, s.Namespace, s.Name)
	switch {
	case errors.Is(err, model.ErrNotFound) && req.can("get", kind, s.Namespace, s.Name):
		s.Deleted = true
		return s, nil
	case req.accessErrors.first() != nil:
		return nil, req.accessErrors.first()
	case err != nil:
		return nil, err
	}
	if err := s.parse(raw); err != nil {
		return nil, err
	}
	return s, nil
}

// parse takes from an object what its page shows in words.
func (s *pageObject) parse(raw json.RawMessage) error {
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
	model.Ref
	Controller bool
}

// owners are those whose kinds are served.
func (req *request) owners(s *pageObject) []owner {
	var found []owner
	for _, o := range s.Meta.OwnerReferences {
		group, _, grouped := strings.Cut(o.APIVersion, "/")
		name := strings.ToLower(o.Kind)
		if grouped {
			name += "." + group
		}
		kind, err := req.api.Kind(req.context(), name)
		if err != nil {
			continue
		}
		ref := model.Ref{Kind: kind, Name: o.Name, UID: string(o.UID)}
		if kind.Namespaced {
			ref.Namespace = s.Namespace
		}
		found = append(found, owner{Ref: ref, Controller: o.Controller != nil && *o.Controller})
	}
	return found
}

// canRead says whether the visitor may read objects of a kind, whose plural need not be
// known.
func (req *request) canRead(kind model.Kind, namespace string) bool {
	if req.usesOwnCredentials() {
		return true
	}
	if kind.Plural == "" {
		served, err := req.api.Kind(req.context(), strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, "."))
		if err != nil {
			if errors.Is(err, userclient.ErrUnreachable) {
				req.accessErrors.record(err)
			}
			return false
		}
		kind = served
	}
	return req.can("get", kind, namespace, "")
}
