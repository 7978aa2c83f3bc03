package model

import (
	"cmp"
	"slices"
)

// Reviews returns the objects with recorded reviews by a controller, each with its latest
// one, newest first. Admission controllers have no other objects.
func (b *History) Reviews(controller string) []ObjectState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.controllers[controller]
	if s == nil {
		return nil
	}
	var all []ObjectState
	for _, d := range s.objects {
		for _, e := range slices.Backward(d.entries) {
			if review := e.run.Review(); review != nil {
				all = append(all, ObjectState{
					Ref: e.run.Object, Controller: controller, State: StateUnknown, Ran: e.run.Began,
					ReviewOutcome: e.run.Outcome, Reviews: len(d.entries) + d.noops, Error: cmp.Or(e.run.Error, review.Message),
				})
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b ObjectState) int {
		return cmp.Or(b.Ran.Compare(a.Ran), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// ReviewsPage returns a page of Reviews. The text of a query does not match denials, which
// may quote objects that the reader may not read.
func (b *History) ReviewsPage(controller string, q Query) Page {
	all := b.Reviews(controller)
	page := Page{Total: len(all), Reviews: true, States: map[State]int{}, Objects: []ObjectState{}}
	matching := slices.DeleteFunc(all, func(c ObjectState) bool {
		return q.Kind != "" && (q.Kind != c.Kind.Kind || q.Group != c.Group) || q.Namespace != "" && q.Namespace != c.Namespace ||
			q.Text != "" && !contains(c.Name, q.Text) && !contains(c.Namespace, q.Text)
	})
	page.Matching = len(matching)
	from := min(max(q.Offset, 0), len(matching))
	page.Objects = append(page.Objects, matching[from:min(from+q.limit(), len(matching))]...)
	return page
}
