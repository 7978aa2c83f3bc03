package dashboard

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// runSpec is the list of the runs of an object, which has no table.
func runSpec() *listSpec[timeline.Entry] {
	return &listSpec[timeline.Entry]{
		Target: "object", One: "run", More: "runs", Label: "Outcomes", Parameter: "outcome", Default: "time",
		States: []string{
			string(record.Failed), inspect.ReviewDenied, string(record.Postponed), string(record.Synced),
			inspect.ReviewMutated, inspect.ReviewAllowed, string(record.Skipped), string(record.Deleted),
		},
		State: func(e *timeline.Entry) string { return e.Outcome },
		Columns: []listColumn[timeline.Entry]{
			{Name: "Newest", Sort: "time", Compare: compareLatest(func(e *timeline.Entry) time.Time { return e.Began })},
			{Name: "Longest", Sort: "duration", Compare: compareMost(func(e *timeline.Entry) time.Duration { return e.Took })},
			{Name: "Most attempts", Sort: "attempts", Compare: compareMost(func(e *timeline.Entry) int { return e.Attempt })},
		},
	}
}

// setEntries sets the runs that the URL selects, at most so many.
func (p *objectPage) setEntries(req *request, runs []inspect.Run, limit int) {
	p.Runs = newList(req, timeline.Entries(runs), runSpec())
	shown := p.Runs.Rows
	if len(shown) > limit {
		shown = shown[:limit]
		p.OlderURL = p.URL("timeline")
		if query := req.r.URL.RawQuery; query != "" {
			p.OlderURL += "?" + query
		}
	}
	p.Entries = req.entriesOf(p.pageObject, shown, runs)
}
