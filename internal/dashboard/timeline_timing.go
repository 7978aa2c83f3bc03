package dashboard

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// timingBar shows how a run spent its time.
type timingBar struct {
	Parts []timingPart
	Total time.Duration
}

// timingPart is one part of it. Offset and Width are in thousandths of the total.
type timingPart struct {
	Name          string
	Took          time.Duration
	Offset, Width int
}

const timingBarWidth = 1000

// newTimingBar splits the time of a run into queue, hook calls, API writes, and other.
func newTimingBar(run *model.Run) timingBar {
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
	b := timingBar{Total: queued + run.Took}
	from := 0
	for _, part := range []timingPart{
		{Name: "queue", Took: queued}, {Name: "hook", Took: hooks}, {Name: "writes", Took: writes},
		{Name: "other", Took: run.Took - hooks - writes},
	} {
		if part.Took <= 0 || b.Total <= 0 {
			continue
		}
		part.Offset = from
		part.Width = max(1, int(float64(part.Took)/float64(b.Total)*timingBarWidth))
		from += part.Width
		b.Parts = append(b.Parts, part)
	}
	return b
}
