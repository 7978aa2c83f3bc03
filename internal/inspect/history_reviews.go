package inspect

import "slices"

// Reviews returns the recorded reviews by a controller, newest first, without requests and
// responses. detailed adds the groups of the users and the changed fields.
func (b *History) Reviews(controller string, detailed bool) []Run {
	entries := b.reviewEntries(controller)
	runs := make([]Run, 0, len(entries))
	for i := range entries {
		runs = append(runs, entries[i].review(detailed))
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return b.Began.Compare(a.Began) })
	return runs
}

// reviewEntries returns copies of the entries of reviews, newest first.
func (b *History) reviewEntries(controller string) []entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.controllers[controller]
	if s == nil {
		return nil
	}
	var found []entry
	for _, e := range slices.Backward(s.entries) {
		if e.isReview() {
			found = append(found, *e)
		}
	}
	return found
}

// review returns the run of a review.
func (e *entry) review(detailed bool) Run {
	run := e.full()
	step := &run.Steps[0]
	if !detailed {
		step.summarize()
		return e.shown(run)
	}
	if e.recorded != nil {
		step.Call.Review = (&renderer{e.recorded.Resource, true}).reviewOf(e.recorded.Steps[0].Call)
	}
	step.Call.Request, step.Call.Response = nil, nil
	return e.shown(run)
}
