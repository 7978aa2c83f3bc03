package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Query filters and sorts objects.
type Query struct {
	// Text matches the name, the namespace or the error; lower case.
	Text string `json:"text,omitempty"`
	// ReadableKinds are the kinds, among those the controller writes, that the reader may
	// read here: Text does not match errors that may quote other kinds.
	ReadableKinds []object.Kind `json:"readableKinds,omitempty"`
	// Group, Kind, Namespace and State filter if set. A Kind without Group is of the core group.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	State     State  `json:"state,omitempty"`
	// Labels selects objects. Reviewed objects have no labels here.
	Labels LabelSelector `json:"labels,omitzero"`
	// Sort is "state" (the default), "name", "created", "run" (latest first), "children"
	// (most first), or "reconcileAt" (oldest request first, paused objects last).
	Sort    string `json:"sort,omitempty"`
	Reverse bool   `json:"reverse,omitempty"`
	// Offset and Limit select the page; the default limit is 100.
	Offset int `json:"offset,omitempty"`
	Limit  int `json:"limit,omitempty"`
}

// Page is a page of a list.
type Page struct {
	// Total is the number of all objects, Matching of those that match the query, and
	// States the number of all objects by state.
	Total    int           `json:"total"`
	Matching int           `json:"matching"`
	States   map[State]int `json:"states"`
	Objects  []ObjectState `json:"objects"`
}

// ManagedObject is an object managed by a controller.
type ManagedObject struct {
	Resource object.Resource
	record.ObjectState
	state State
	// created is the creation timestamp as JSON, which sorts like the time.
	created     []byte
	reconcileAt time.Time
}

const defaultLimit = 100

// NewPage filters, sorts and pages objects.
func NewPage(objects []ManagedObject, q Query) Page {
	page := Page{Total: len(objects), States: map[State]int{}, Objects: []ObjectState{}}
	matching := make([]*ManagedObject, 0, len(objects))
	for i := range objects {
		s := &objects[i]
		s.state = StateOf(&s.ObjectState)
		page.States[s.state]++
		if q.matches(s) {
			matching = append(matching, s)
		}
	}
	page.Matching = len(matching)
	from := min(max(q.Offset, 0), len(matching))
	limit := cmp.Or(max(q.Limit, 0), defaultLimit)
	q.sort(matching)
	page.Objects = append(page.Objects, lists.Map(matching[from:min(from+limit, len(matching))], (*ManagedObject).View)...)
	return page
}

func (q *Query) matches(s *ManagedObject) bool {
	switch {
	case q.State != "" && q.State != s.state,
		q.Kind != "" && (q.Kind != s.Resource.Kind || q.Group != s.Resource.Group),
		q.Namespace != "" && q.Namespace != s.Object.Namespace(),
		!q.Labels.matches(s.Object.Labels()):
		return false
	}
	return q.Text == "" || contains(s.Object.Name(), q.Text) || contains(s.Object.Namespace(), q.Text) ||
		s.Error != "" && q.mayReadError(s) && contains(s.View().Error, q.Text)
}

// mayReadError reports whether the reader may read all that the error may quote. Otherwise
// a search would reveal it piece by piece.
func (q *Query) mayReadError(s *ManagedObject) bool {
	return !slices.ContainsFunc(s.Locations, func(p Location) bool {
		if p.GroupKind() == s.Resource.GroupKind() && p.Namespace == s.Object.Namespace() {
			return false
		}
		elsewhere := q.Namespace != "" && p.Namespaced && p.Namespace != q.Namespace
		return elsewhere || !slices.ContainsFunc(q.ReadableKinds, func(k object.Kind) bool { return k.GroupKind() == p.GroupKind() })
	})
}

// contains reports whether text contains a lower-case part, ignoring case.
func contains(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }

// sort sorts objects. Names break ties.
func (q *Query) sort(all []*ManagedObject) {
	for _, s := range all {
		switch q.Sort {
		case "created":
			s.created = s.Object.Field("metadata", "creationTimestamp")
		case "reconcileAt":
			s.reconcileAt = plan.ReconcileRequestOn(s.Object).At
		}
	}
	before := q.order()
	slices.SortFunc(all, func(a, b *ManagedObject) int {
		by := cmp.Or(before(a, b), strings.Compare(a.Object.Namespace(), b.Object.Namespace()),
			strings.Compare(a.Object.Name(), b.Object.Name()), strings.Compare(a.Resource.Kind, b.Resource.Kind))
		if q.Reverse {
			return -by
		}
		return by
	})
}

// order returns the comparison of the query, without ties.
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
	case "reconcileAt":
		// Every replica knows that time from the objects; only the leader knows when they were reconciled.
		paused := func(s *ManagedObject) bool { return s.state == StatePaused }
		return func(a, b *ManagedObject) int {
			switch {
			case paused(a) == paused(b):
				return a.reconcileAt.Compare(b.reconcileAt)
			case paused(a):
				return 1
			}
			return -1
		}
	}
	return func(a, b *ManagedObject) int {
		return cmp.Compare(slices.Index(states[:], a.state), slices.Index(states[:], b.state))
	}
}

// View returns the state of the object.
func (s *ManagedObject) View() ObjectState {
	objectState := ObjectState{
		Ref:          RefOf(s.Resource, s.Object),
		State:        StateOf(&s.ObjectState),
		Created:      s.Object.Time("creationTimestamp"),
		Deleting:     s.Object.Deleting(),
		Ran:          s.LastRun,
		ReconcileAt:  plan.ReconcileRequestOn(s.Object).At,
		ReconciledAt: s.ReconciledAt,
		Children:     s.Children,
	}
	if objectState.State == StatePaused || objectState.State == StateUnknown {
		// Paused and standby objects are not retried here; earlier errors are outdated.
		return objectState
	}
	objectState.Next, objectState.Conflict, objectState.Waiting = s.NextRun, s.Conflict, s.Waiting
	objectState.HeldDeletions, objectState.AllowDeletions = s.HeldDeletions, s.AllowDeletions
	objectState.Shadow, objectState.LogicVersion = s.Shadow, s.LogicVersion
	if s.Failing {
		objectState.Error, objectState.Reason, objectState.Fault = s.Error, s.Reason, s.Fault
		objectState.Attempts, objectState.FailingSince = s.Attempts, s.Since
	}
	if objectState.Error+objectState.Conflict != "" || s.Shadow != nil {
		objectState.Mentions = slices.Clone(s.Locations)
	}
	return objectState
}

// LabelSelector selects objects by their labels, as `kubectl --selector` does. The zero value
// selects all. It is a flag value, and text in JSON.
type LabelSelector struct{ selector labels.Selector }

// String returns the selector as text.
func (s *LabelSelector) String() string {
	if s.selector == nil {
		return ""
	}
	return s.selector.String()
}

// Set parses a selector. String, Set and Type implement pflag.Value.
func (s *LabelSelector) Set(text string) (err error) {
	if s.selector, err = labels.Parse(text); err != nil {
		return fmt.Errorf("label selector: %w", err)
	}
	return nil
}

// Type returns the value's name in help texts.
func (*LabelSelector) Type() string { return "selector" }

// MarshalText implements encoding.TextMarshaler.
func (s LabelSelector) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *LabelSelector) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// IsZero reports whether all objects are selected.
func (s LabelSelector) IsZero() bool { return s.selector == nil || s.selector.Empty() }

func (s LabelSelector) matches(of object.Labels) bool { return s.IsZero() || s.selector.Matches(of) }
