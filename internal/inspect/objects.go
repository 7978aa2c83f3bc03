package inspect

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Subject is an object in the care of a controller, before it is put into words.
type Subject struct {
	Resource object.Resource
	trace.Care
	state   State
	created time.Time
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
func StateOf(c *trace.Care) State {
	switch {
	case c.Paused:
		return Paused
	case c.Failing:
		return Failing
	case c.Unrest != "":
		return Unsettled
	case c.Waiting:
		return Waiting
	}
	return Well
}

// defaultLimit is how many objects a page has that does not say so.
const defaultLimit = 100

// PageOf is the part of subjects that a query is about, in its order. It reorders
// them.
func PageOf(subjects []Subject, q Query) Page {
	page := Page{Total: len(subjects), States: map[State]int{}, Objects: []Care{}}
	for i := range subjects {
		s := &subjects[i]
		s.state = StateOf(&s.Care)
		page.States[s.state]++
	}
	matching := slices.DeleteFunc(subjects, func(s Subject) bool { return !q.matches(&s) })
	page.Matching = len(matching)
	q.sort(matching)
	from := min(max(q.Offset, 0), len(matching))
	for _, s := range matching[from:min(from+q.limit(), len(matching))] {
		page.Objects = append(page.Objects, s.Words())
	}
	return page
}

func (q *Query) limit() int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return q.Limit
}

func (q *Query) matches(s *Subject) bool {
	switch {
	case q.State != "" && q.State != s.state,
		q.Kind != "" && q.Kind != s.Resource.Kind,
		q.Namespace != "" && q.Namespace != s.Object.Namespace():
		return false
	}
	return q.Text == "" || contains(s.Object.Name(), q.Text) || contains(s.Object.Namespace(), q.Text) || contains(s.Error, q.Text)
}

// contains says whether a text contains another one, which is in lower case.
func contains(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }

// sort puts subjects in order. What is equal is in that of names.
func (q *Query) sort(all []Subject) {
	if q.Sort == "created" {
		for i := range all {
			all[i].created = createdAt(all[i].Object)
		}
	}
	first := q.order()
	slices.SortFunc(all, func(a, b Subject) int {
		by := cmp.Or(first(&a, &b), compareNames(&a, &b))
		if q.Reverse {
			return -by
		}
		return by
	})
}

func compareNames(a, b *Subject) int {
	return cmp.Or(cmp.Compare(a.Object.Namespace(), b.Object.Namespace()),
		cmp.Compare(a.Object.Name(), b.Object.Name()), cmp.Compare(a.Resource.Kind, b.Resource.Kind))
}

// order is what comes before names.
func (q *Query) order() func(a, b *Subject) int {
	switch q.Sort {
	case "name":
		return func(*Subject, *Subject) int { return 0 }
	case "created":
		return func(a, b *Subject) int { return b.created.Compare(a.created) }
	case "run":
		return func(a, b *Subject) int { return b.Ran.Compare(a.Ran) }
	case "children":
		return func(a, b *Subject) int { return cmp.Compare(b.Children, a.Children) }
	}
	return func(a, b *Subject) int { return cmp.Compare(rank(a.state), rank(b.state)) }
}

func rank(s State) int { return slices.Index(States(), s) }

// Words are what can be said of a subject.
func (s *Subject) Words() Care {
	care := Care{
		Ref:      RefOf(s.Resource, s.Object),
		State:    StateOf(&s.Care),
		Created:  createdAt(s.Object),
		Deleting: s.Object.Deleting(),
		Error:    s.Error,
		Attempts: s.Attempts,
		Next:     s.Next,
		Ran:      s.Ran,
		Children: s.Children,
	}
	if care.Error == "" {
		care.Error = s.Unrest
	}
	return care
}

// createdAt is when an object was created; zero if it does not say so.
func createdAt(o *object.Object) time.Time {
	var created time.Time
	if field := o.Field("metadata", "creationTimestamp"); field == nil || json.Unmarshal(field, &created) != nil {
		return time.Time{}
	}
	return created
}

// ChildOf puts a child into words.
func ChildOf(c trace.Child) Child {
	child := Child{Ref: RefOf(c.Resource, c.Object), Created: createdAt(c.Object)}
	child.Health, child.Message = HealthOf(c.Object)
	return child
}
