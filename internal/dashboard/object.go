package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pageObject is the object of a page as the user may see it.
type pageObject struct {
	object.Ref
	// Deleted reports that the object no longer exists. Only its history is known.
	Deleted bool
	Meta    metav1.ObjectMeta
	// Conditions are its status conditions.
	Conditions []metav1.Condition
	// raw is its JSON; nil if it is deleted.
	raw json.RawMessage
}

// URL returns the URL of its page, or of a page below it.
func (s *pageObject) URL(below ...string) string { return objectURL(s.Ref, below...) }

// objectPage is the data of an object's page.
type objectPage struct {
	*pageObject
	Owners  []owner
	States  []stateView
	Actions []action
	Tree    tree
	// Runs are the runs that the URL selects, Entries those that the page shows.
	Runs    *list[timeline.Entry]
	Entries []entry
	// NeverStored reports that its creation was denied.
	NeverStored bool
	// Deletion ends the timeline; nil for none.
	Deletion *timeline.Deletion
	// OlderURL links to the whole timeline; "" if this is all of it.
	OlderURL string
	Events   eventList
	// Warnings say why the page is incomplete.
	Warnings []string
	// Caveats say what its processes do not know.
	Caveats []string
}

// firstEntries is how many entries a page shows at first, maxRuns how many runs are fetched.
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
	p := objectPage{pageObject: s}
	runs, missing := req.fetchRuns(s, maxRuns)
	p.setDeletion(runs)
	p.addWarnings(missing...)
	p.setEntries(req, runs, limit)
	if err := req.loadDetails(&p, runs); err != nil {
		return err
	}
	return req.render(page{
		Name: "object", Title: s.Kind.Kind + " " + s.Name, Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

// setDeletion sets what is known about the deletion of the object.
func (p *objectPage) setDeletion(runs []inspect.Run) {
	switch at := p.Meta.DeletionTimestamp; {
	case p.Deleted && timeline.NeverStored(runs):
		p.NeverStored = true
	case p.Deleted:
		p.Deletion = timeline.CompletedDeletion(runs)
	case at != nil:
		p.Deletion = timeline.PendingDeletion(at.Time, p.Meta.DeletionGracePeriodSeconds, p.Meta.Finalizers)
	}
}

// loadDetails adds states with their incidents, owners, actions, children and events.
func (req *request) loadDetails(p *objectPage, runs []inspect.Run) error {
	s := p.pageObject
	states, unavailable := req.objectStates(s.Ref)
	p.addWarnings(unavailable...)
	if s.Deleted && len(states)+len(runs)+len(unavailable) == 0 {
		return notFound("%s %s does not exist, and has no history.", s.Kind.Kind, s.Name)
	}
	processes := req.managingProcesses(states)
	p.States, p.Caveats = s.stateViews(states, processes, runs), caveats(processes)
	req.addIncidents(p, runs)
	p.Owners = req.owners(s)
	p.Actions = req.objectActions(s, states)
	var err error
	if p.Tree, err = req.tree(s, states); err != nil {
		return err
	}
	if p.Events.All, err = req.api.Events(req.context(), s.Ref); err != nil {
		p.Events.Problem = problemOf(err)
	}
	return nil
}

// eventList is the events of an object, or why they cannot be listed.
type eventList struct {
	All     []userclient.Event
	Problem *problem
}

// HasRun reports whether a controller has reconciled the object.
func (p objectPage) HasRun() bool {
	return slices.ContainsFunc(p.States, func(c stateView) bool { return !c.Ran.IsZero() })
}

// addWarnings adds distinct warnings.
func (p *objectPage) addWarnings(why ...string) {
	for _, text := range why {
		if !slices.Contains(p.Warnings, text) {
			p.Warnings = append(p.Warnings, text)
		}
	}
}

// loadObject loads the object of the URL. A deleted object shows its history to users who could
// get it.
func (req *request) loadObject() (*pageObject, error) {
	ref, err := req.refFromURL()
	if err != nil {
		return nil, err
	}
	s := &pageObject{Ref: ref}
	raw, err := req.api.Get(req.context(), s.Kind, s.Namespace, s.Name)
	switch {
	case errors.Is(err, failure.ErrNotFound) && req.can("get", s.Kind, s.Namespace, s.Name):
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

// parse reads the metadata and conditions of an object.
func (s *pageObject) parse(raw json.RawMessage) error {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("decode %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	s.raw, s.Meta, s.UID = raw, o.Metadata, string(o.Metadata.UID)
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	// The conditions of a custom resource may have another schema.
	if json.Unmarshal(raw, &status) == nil {
		s.Conditions = status.Status.Conditions
	}
	return nil
}

// owner is an owner of the object.
type owner struct {
	object.Ref
	Controller bool
}

// owners returns the owners whose kinds are served.
func (req *request) owners(s *pageObject) []owner {
	var found []owner
	for _, o := range s.Meta.OwnerReferences {
		version, _ := schema.ParseGroupVersion(o.APIVersion)
		kind, err := req.servedKind(version.Group, o.Kind)
		if err != nil {
			continue
		}
		ref := object.Ref{Kind: kind, Name: o.Name, UID: string(o.UID)}
		if kind.Namespaced {
			ref.Namespace = s.Namespace
		}
		found = append(found, owner{Ref: ref, Controller: o.Controller != nil && *o.Controller})
	}
	return found
}

// servedKind returns a kind as the API server serves it.
func (req *request) servedKind(group, kind string) (object.Kind, error) {
	return req.api.Kind(req.context(), schema.GroupKind{Group: group, Kind: strings.ToLower(kind)}.String())
}

// canRead reports whether the user may get objects of a kind. The plural of the kind may be
// empty. Users who may in all namespaces need one access review for a list, not one per namespace.
func (req *request) canRead(kind object.Kind, namespace string) bool {
	return req.can("get", kind, "", "") || namespace != "" && req.can("get", kind, namespace, "")
}
