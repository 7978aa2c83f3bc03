package model

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ManagedObject is an object in the care of a controller, before it is put into words.
type ManagedObject struct {
	Resource object.Resource
	record.ObjectState
	state State
	rank  int
	// created is as the object says, in JSON: the order of such texts is that of times.
	created     []byte
	reconcileAt time.Time
}

// KindOf is a kind as it is served.
func KindOf(r object.Resource) Kind {
	return Kind{Group: r.Group, Version: r.Version, Plural: r.Plural, Kind: r.Kind, Namespaced: r.Namespaced}
}

// RefOf names an object of a kind.
func RefOf(r object.Resource, o *object.Object) Ref {
	return Ref{Kind: KindOf(r), Namespace: o.Namespace(), Name: o.Name(), UID: strings.Clone(o.UID())}
}

// StateOf is how an object is doing, in a word.
func StateOf(c *record.ObjectState) State {
	switch {
	case c.Paused:
		return StatePaused
	case c.Standby:
		return StateUnknown
	case c.Failing:
		return StateFailing
	case c.Conflict != "":
		return StateConflicting
	case c.Queued:
		return StateQueued
	}
	return StateSynced
}

// defaultLimit is how many objects a page has that does not say so.
const defaultLimit = 100

// NewPage is the part of subjects that a query is about, in its order.
func NewPage(objects []ManagedObject, q Query) Page {
	page := Page{Total: len(objects), States: map[State]int{}, Objects: []ObjectState{}}
	matching := make([]*ManagedObject, 0, len(objects))
	counts := [6]int{}
	for i := range objects {
		s := &objects[i]
		s.state = StateOf(&s.ObjectState)
		s.rank = rank(s.state)
		counts[s.rank]++
		if q.matches(s) {
			matching = append(matching, s)
		}
	}
	for i, state := range States() {
		if counts[i] > 0 {
			page.States[state] = counts[i]
		}
	}
	page.Matching = len(matching)
	from := min(max(q.Offset, 0), len(matching))
	for _, s := range q.sort(matching, min(from+q.limit(), len(matching)))[from:] {
		page.Objects = append(page.Objects, s.View())
	}
	return page
}

func (q *Query) limit() int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return q.Limit
}

func (q *Query) matches(s *ManagedObject) bool {
	switch {
	case q.State != "" && q.State != s.state,
		q.Kind != "" && (q.Kind != s.Resource.Kind || q.Group != s.Resource.Group),
		q.Namespace != "" && q.Namespace != s.Object.Namespace():
		return false
	}
	return q.Text == "" || contains(s.Object.Name(), q.Text) || contains(s.Object.Namespace(), q.Text) ||
		s.Error != "" && q.mayReadError(s) && contains(s.View().Error, q.Text)
}

// mayReadError says whether the reader may know what the error of a subject says: who could
// only look for parts of it could find out all of it.
func (q *Query) mayReadError(s *ManagedObject) bool {
	return !slices.ContainsFunc(s.Locations, func(p record.Location) bool {
		if p.Resource.GroupKind() == s.Resource.GroupKind() && p.Namespace == s.Object.Namespace() {
			return false
		}
		elsewhere := q.Namespace != "" && p.Resource.Namespaced && p.Namespace != q.Namespace
		return elsewhere || !slices.ContainsFunc(q.ReadableKinds, func(k Kind) bool { return k.Group == p.Resource.Group && k.Kind == p.Resource.Kind })
	})
}

// contains says whether a text contains another one, which is in lower case.
func contains(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }

// sort are the first so many subjects in order. What is equal is in that of names.
func (q *Query) sort(all []*ManagedObject, first int) []*ManagedObject {
	for _, s := range all {
		switch q.Sort {
		case "created":
			s.created = s.Object.Field("metadata", "creationTimestamp")
		case "asked":
			s.reconcileAt = reconcileAtOf(s.Object)
		}
	}
	before := q.order()
	return smallest(all, first, func(a, b *ManagedObject) int {
		by := before(a, b)
		if by == 0 {
			by = compareNames(a, b)
		}
		if q.Reverse {
			return -by
		}
		return by
	})
}

// smallest are the first so many of all in order: who shows a page of ten thousand need
// not sort them all.
func smallest(all []*ManagedObject, first int, compare func(a, b *ManagedObject) int) []*ManagedObject {
	if first > len(all)/4 {
		slices.SortFunc(all, compare)
		return all[:min(first, len(all))]
	}
	found := make([]*ManagedObject, 0, first+1)
	for _, s := range all {
		if len(found) == first && compare(s, found[first-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(found, s, compare)
		found = slices.Insert(found, at, s)
		found = found[:min(len(found), first)]
	}
	return found
}

func compareNames(a, b *ManagedObject) int {
	if by := strings.Compare(a.Object.Namespace(), b.Object.Namespace()); by != 0 {
		return by
	}
	if by := strings.Compare(a.Object.Name(), b.Object.Name()); by != 0 {
		return by
	}
	return strings.Compare(a.Resource.Kind, b.Resource.Kind)
}

// order is what comes before names.
func (q *Query) order() func(a, b *ManagedObject) int {
	switch q.Sort {
	case "name":
		return func(*ManagedObject, *ManagedObject) int { return 0 }
	case "created":
		return func(a, b *ManagedObject) int { return bytes.Compare(b.created, a.created) }
	case "run":
		return func(a, b *ManagedObject) int { return b.LastRun.Compare(a.LastRun) }
	case "children":
		return func(a, b *ManagedObject) int { return cmp.Compare(b.Children, a.Children) }
	case "asked":
		return compareReconcileAt
	}
	return func(a, b *ManagedObject) int { return cmp.Compare(a.rank, b.rank) }
}

// compareReconcileAt has those first for which nobody asked, or the longest ago. It goes by what
// the objects say, which each replica knows, and which is so at once: when they were run,
// only the leader knows. Who asks for them leaves out those that are paused.
func compareReconcileAt(a, b *ManagedObject) int {
	switch aside := rank(StatePaused); {
	case a.rank == b.rank || a.rank != aside && b.rank != aside:
		return a.reconcileAt.Compare(b.reconcileAt)
	case a.rank == aside:
		return 1
	}
	return -1
}

// rank is where a state stands among States.
func rank(s State) int {
	switch s {
	case StateFailing:
		return 0
	case StateConflicting:
		return 1
	case StateQueued:
		return 2
	case StateUnknown:
		return 3
	case StatePaused:
		return 4
	}
	return 5
}

// View are what can be said of a subject.
func (s *ManagedObject) View() ObjectState {
	objectState := ObjectState{
		Ref:         RefOf(s.Resource, s.Object),
		State:       StateOf(&s.ObjectState),
		Created:     createdAt(s.Object),
		Deleting:    s.Object.Deleting(),
		Ran:         s.LastRun,
		ReconcileAt: reconcileAtOf(s.Object),
		Children:    s.Children,
	}
	if objectState.State == StatePaused || objectState.State == StateUnknown {
		// Nothing is tried again here, and what it failed with is the past.
		return objectState
	}
	objectState.Next, objectState.Conflict = s.NextRun, s.Conflict
	objectState.HeldDeletions, objectState.AllowDeletions = s.HeldDeletions, s.AllowDeletions
	if s.Failing {
		objectState.Error, objectState.Fault, objectState.Attempts, objectState.FailingSince = s.Error, s.Fault, s.Attempts, s.Since
	}
	if mentionsSecret(s.Locations) {
		objectState.Error, objectState.Conflict = redactQuotes(objectState.Error), redactQuotes(objectState.Conflict)
	}
	if objectState.Error+objectState.Conflict != "" {
		objectState.Mentions = locationsOf(s.Locations)
	}
	return objectState
}

// mentionsSecret says whether one of some places is one of Secrets.
func mentionsSecret(places []record.Location) bool {
	return slices.ContainsFunc(places, func(p record.Location) bool { return isSecret(p.Resource.APIVersion(), p.Resource.Kind) })
}

func locationsOf(places []record.Location) (all []Location) {
	for _, p := range places {
		all = append(all, Location{KindOf(p.Resource), p.Namespace})
	}
	return all
}

// FailureOf puts the latest failure of a controller into words; nil for none.
func FailureOf(last controller.LastError) *Failure {
	if last.Time.IsZero() {
		return nil
	}
	f := &Failure{Message: last.Message, Object: last.Object, Time: last.Time}
	if mentionsSecret(last.Locations) {
		f.Message = redactQuotes(f.Message)
	}
	return f
}

// createdAt is when an object was created; zero if it does not say so.
func createdAt(o *object.Object) time.Time {
	text := strings.Trim(string(o.Field("metadata", "creationTimestamp")), `"`)
	created, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return created
}

// reconcileAtOf is when an object was asked for by its annotation; zero if never, or if that says
// anything else than a time.
func reconcileAtOf(o *object.Object) time.Time {
	asked, err := time.Parse(time.RFC3339Nano, plan.Annotation(o, v1alpha1.AnnotationReconcileAt))
	if err != nil {
		return time.Time{}
	}
	return asked
}

// ChildOf puts a child into words.
func ChildOf(c record.Child) Child {
	child := Child{Ref: RefOf(c.Resource, c.Object), Created: createdAt(c.Object)}
	child.Health, child.Message = HealthOf(c.Object)
	return child
}
