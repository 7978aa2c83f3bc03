package inspect

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Reviews are the objects of which reviews by a controller are kept, with the latest
// review of each, the latest first. Controllers that review and do nothing else have no
// other objects.
func (b *Book) Reviews(controller string) []Care {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shelves[controller]
	if s == nil {
		return nil
	}
	var all []Care
	for _, d := range s.drawers {
		i := len(d.entries) - 1
		for i >= 0 && !reviewed(&d.entries[i].run) {
			i--
		}
		if i < 0 {
			continue
		}
		words := d.entries[i].brief()
		all = append(all, Care{
			Ref: words.Object, Controller: controller, State: NotKnown, Ran: words.Began,
			Reviewed: words.Outcome, Reviews: len(d.entries) + d.quiet, Error: denialOf(&d.entries[i].run, words.Error),
		})
	}
	slices.SortFunc(all, func(a, b Care) int {
		return cmp.Or(b.Ran.Compare(a.Ran), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// reviewed says that a run was a review.
func reviewed(run *trace.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s trace.Step) bool { return s.Ask != nil }) && run.By != ""
}

// denialOf is why a review was refused: what it failed with, or the reason that it gave,
// as long as that is kept.
func denialOf(run *trace.Run, failed string) string {
	for i := range run.Steps {
		ask := run.Steps[i].Ask
		if ask != nil && ask.Answer.Review != nil && ask.Answer.Review.Denial != nil {
			return cmp.Or(failed, ask.Answer.Review.Denial.Message)
		}
	}
	return failed
}

// ReviewsPage is the part of them that a query asks for. What denials say is looked
// through for no text: it may quote an object that the reader may not read.
func (b *Book) ReviewsPage(controller string, q Query) Page {
	all := b.Reviews(controller)
	page := Page{Total: len(all), Reviews: true, States: map[State]int{}, Objects: []Care{}}
	matching := slices.DeleteFunc(all, func(c Care) bool {
		return q.Kind != "" && (q.Kind != c.Kind.Kind || q.Group != c.Group) || q.Namespace != "" && q.Namespace != c.Namespace ||
			q.Text != "" && !contains(c.Name, q.Text) && !contains(c.Namespace, q.Text)
	})
	page.Matching = len(matching)
	from := min(max(q.Offset, 0), len(matching))
	page.Objects = append(page.Objects, matching[from:min(from+q.limit(), len(matching))]...)
	return page
}
