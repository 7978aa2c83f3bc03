package model

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/record"
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
		i := len(d.entries) - 1
		for i >= 0 && !reviewed(&d.entries[i].run) {
			i--
		}
		if i < 0 {
			continue
		}
		words := d.entries[i].summary()
		all = append(all, ObjectState{
			Ref: words.Object, Controller: controller, State: StateUnknown, Ran: words.Began,
			ReviewOutcome: words.Outcome, Reviews: len(d.entries) + d.noops, Error: denialOf(&d.entries[i].run, words.Error),
		})
	}
	slices.SortFunc(all, func(a, b ObjectState) int {
		return cmp.Or(b.Ran.Compare(a.Ran), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// reviewed reports whether a run is a review.
func reviewed(run *record.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s record.Step) bool { return s.Call != nil }) && run.Trigger != ""
}

// denialOf returns the error or the message of a denied review, if it is still recorded.
func denialOf(run *record.Run, failed string) string {
	for i := range run.Steps {
		call := run.Steps[i].Call
		if call != nil && call.Response.Review != nil && call.Response.Review.Denial != nil {
			return cmp.Or(failed, call.Response.Review.Denial.Message)
		}
	}
	return failed
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
