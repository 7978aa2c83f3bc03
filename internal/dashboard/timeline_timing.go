package dashboard

import "time"

// timingPart is a part of a run's time. Offset and Width are in thousandths of the total.
type timingPart struct {
	Name          string
	Took          time.Duration
	Offset, Width int
}

const timingBarWidth = 1000

// TimingBar splits the time of a run into queue, hook calls, API writes, and other.
func (e entry) TimingBar() (parts []timingPart) {
	run := &e.Run
	var hooks, writes time.Duration
	for _, step := range run.Steps {
		switch {
		case step.Call != nil:
			hooks += step.Took
		case step.Write != nil:
			writes += step.Took
		}
	}
	// Parallel steps add up to more than the run took.
	if spent := hooks + writes; spent > run.Took && spent > 0 {
		hooks = time.Duration(float64(hooks) / float64(spent) * float64(run.Took))
		writes = run.Took - hooks
	}
	queued := max(0, run.QueuedFor)
	from, total := 0, queued+run.Took
	for _, part := range []timingPart{
		{Name: "queue", Took: queued}, {Name: "hook", Took: hooks}, {Name: "writes", Took: writes},
		{Name: "other", Took: run.Took - hooks - writes},
	} {
		if part.Took <= 0 || total <= 0 {
			continue
		}
		part.Offset = from
		part.Width = max(1, int(float64(part.Took)/float64(total)*timingBarWidth))
		from += part.Width
		parts = append(parts, part)
	}
	return parts
}
