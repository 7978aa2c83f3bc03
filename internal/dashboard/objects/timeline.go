package objects

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// firstEntries is how many entries a page shows at first, maxRuns how many runs are fetched.
const (
	firstEntries = 20
	maxRuns      = 500
)

// entry is an entry of a timeline: a run, or several with the same failure.
type entry struct {
	timeline.Entry
	of *Object
	// Review is the decision of an admission review, Webhook the webhook that made it.
	Review  *inspect.Review
	Webhook string
	// runTriggers are why it ran, Effects what it changed.
	runTriggers
	Effects []effect
	// Headline is the result. Tone is its CSS class; runs that changed nothing are neutral.
	Headline, Tone string
	Fault          *fault
	// Trigger is why the first run ran, if that is not the last one.
	Trigger *runTriggers
	// Replaced reports that the object was another one with the same name.
	Replaced bool
	// Deletion reports that the entry is the deletion of the object, not a run.
	Deletion bool
	// page is the page of a review; "" for that of the run.
	page string
}

// fetchRuns returns the runs of an object in all processes, newest first, and messages for unavailable processes.
func (req *Request) fetchRuns(s *Object, limit int) (all []inspect.Run, missing []string) {
	ref := s.Ref
	ref.UID = "" // Include runs of earlier objects with the same name.
	found, missing := processes.FetchAll(req.Context(), req.Processes, func(ctx context.Context, s inspect.Source) ([]inspect.Run,
		error) {
		return s.Runs(ctx, ref, limit)
	})
	all = lists.Map(slices.Concat(found...), func(run inspect.Run) inspect.Run { return inspect.Redact(run, req.CanRead) })
	return timeline.Sort(all), missing
}

// entriesOf returns the entries as a page shows them. The runs are all of the object.
func (req *Request) entriesOf(s *Object, found []timeline.Entry, runs []inspect.Run) []entry {
	all := make([]entry, 0, len(found))
	for _, each := range found {
		one := newEntry(s, each)
		if one.Deletion {
			one.Headline = timeline.DeletedText(timeline.DeletedBy(runs, &each.Run))
		}
		all = append(all, one)
	}
	loader := req.NewLoader()
	for i := range all[:min(len(all), firstEntries)] {
		if !all[i].Deletion {
			loader.addTriggers(s, &all[i])
		}
	}
	return all
}

func newEntry(s *Object, of timeline.Entry) entry {
	run := &of.Run
	e := entry{
		Entry: of, of: s, Effects: newEffects(run.Steps), runTriggers: runTriggers{OtherCauses: run.Causes},
		Replaced: s.UID != "" && run.Object.UID != "" && run.Object.UID != s.UID, Deletion: timeline.IsDeletion(run),
	}
	if e.Review = run.Review(); e.Review != nil {
		e.Webhook = run.Steps[0].Call.Name
	}
	if run.Error != "" {
		e.Fault = describeFault(run.Error, run.Fault, "Run failed")
		e.Effects = slices.DeleteFunc(e.Effects, func(d effect) bool { // An event may only repeat the error.
			return d.Sign == "!" && strings.Contains(d.Text, run.Error[:min(len(run.Error), 200)])
		})
	}
	e.Headline, e.Tone = headline(&e), web.Tone(run.Outcome)
	if run.Outcome == "synced" && len(e.Effects) == 0 {
		e.Tone = "neutral"
	}
	return e
}

func (e entry) ElementID() string { return runElementID(&e.Run) }

func runElementID(run *inspect.Run) string {
	return "run-" + run.Process + "-" + strconv.FormatUint(run.ID, 10)
}

// URL returns the page of its latest run.
func (e entry) URL() string { return cmp.Or(e.page, e.RunURL(e.Run)) }

func (e entry) ReviewsURL() string {
	return web.ReviewsURL(e.Process, e.Controller, e.Object)
}

func (e entry) RunURL(run inspect.Run) string { return runURL(e.of, run.Process, run.ID) }

func runURL(s *Object, process string, id uint64) string {
	return s.URL("runs", strconv.FormatUint(id, 10)) + "?" + url.Values{"in": {process}}.Encode()
}

const maxEarlier = 50

func (e entry) ListedEarlier() []inspect.Run { return e.Earlier[:min(len(e.Earlier), maxEarlier)] }

func (e entry) More() int { return max(0, len(e.Earlier)-maxEarlier) }

type effect struct {
	// Sign is "+", "~", "−" or "!". Tone is the CSS class.
	Sign, Tone string
	Verb       string
	Object     object.Ref
	// Text is why, or the message of an event, which has a Reason.
	Text, Reason, Error string
}

// newEffects returns the writes, with their planned reasons, and the events of a run.
func newEffects(steps []inspect.Step) []effect {
	var effects []effect
	reasons := map[object.Ref]string{}
	for _, step := range steps {
		switch {
		case step.Plan != nil:
			for _, a := range step.Plan.Actions {
				reasons[a.Object.Identity()] = a.Reason
			}
		case step.Write != nil:
			effects = append(effects, writeEffect(step.Write, reasons[step.Write.Object.Identity()]))
		case step.Event != nil:
			effects = append(effects, effect{
				Sign: "!", Tone: web.Tone(step.Event.Type), Verb: "event", Reason: step.Event.Reason, Text: step.Event.Message,
			})
		}
	}
	return effects
}

func writeEffect(w *inspect.Write, reason string) effect {
	d := effect{Sign: signOf(w.Verb), Tone: "wait", Verb: w.Verb, Object: w.Object, Error: w.Error, Text: reason}
	switch {
	case w.Part != "":
		d.Verb, d.Text = w.Verb+" the "+w.Part+" of", ""
	case w.Unchanged:
		d.Tone, d.Text = "neutral", "no change"
	}
	if d.Sign == "−" {
		d.Tone = "warn"
	}
	if w.Error != "" {
		d.Tone = "bad"
	}
	return d
}

func signOf(verb string) string {
	switch verb {
	case "create":
		return "+"
	case "delete", "evict":
		return "−"
	}
	return "~"
}

// headline returns the result of a run in a few words.
func headline(e *entry) string {
	switch e.Outcome {
	case record.Deleted:
		return timeline.DeletedText("")
	case "failed":
		if e.Fault != nil {
			return e.Fault.Title
		}
		return "Failed"
	case "postponed":
		return "Postponed"
	}
	return cmp.Or(timeline.Decision(&e.Run), summarizeWrites(e))
}

// writeCount counts equal writes to one object. Own writes are those to the object itself.
type writeCount struct {
	verb, target string
	own          bool
	n            int
}

// summarizeWrites summarizes the writes of a successful run. It names at most two objects, and
// counts more by verb, such as "deleted 1, created 2". Own writes are always named.
func summarizeWrites(e *entry) string {
	var writes []writeCount
	others := map[string]int{}
	for i := range e.Steps {
		w := e.Steps[i].Write
		if w == nil || !timeline.Changed(w) {
			continue
		}
		verb, target, own := timeline.PastTense(w.Verb), writeTarget(w, &e.Object), w.Object.Identity() == e.Object.Identity()
		at := slices.IndexFunc(writes, func(c writeCount) bool { return c.verb == verb && c.target == target })
		if at >= 0 {
			writes[at].n++
			continue
		}
		writes = append(writes, writeCount{verb, target, own, 1})
		if !own {
			others[verb]++
		}
	}
	var parts []string
	for _, w := range writes {
		text := w.verb + " " + w.target + timesText(w.n)
		if len(writes) > 2 && !w.own {
			text = w.verb + " " + strconv.Itoa(others[w.verb])
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return format.Capitalize(cmp.Or(strings.Join(parts, ", "), "no changes"))
}

func timesText(n int) string {
	switch n {
	case 1:
		return ""
	case 2:
		return " twice"
	}
	return " " + strconv.Itoa(n) + " times"
}

func writeTarget(w *inspect.Write, self *object.Ref) string {
	target := w.Object.Kind.Kind + " " + format.Shorten(w.Object.Name)
	switch own := w.Object.Identity() == self.Identity(); {
	case own && w.Part != "":
		return "its " + w.Part
	case own:
		return "the object itself"
	case w.Part != "":
		return "the " + w.Part + " of " + target
	}
	return target
}

// runSpec is the list of the runs of an object, which has no table.
func runSpec() *web.ListSpec[timeline.Entry] {
	return &web.ListSpec[timeline.Entry]{
		Target: "object", One: "run", More: "runs", Label: "Outcomes", Parameter: "outcome", Default: "time",
		States: []string{
			record.Failed, inspect.ReviewDenied, record.Postponed, record.Synced,
			inspect.ReviewMutated, inspect.ReviewAllowed, record.Skipped, record.Deleted,
		},
		State: func(e *timeline.Entry) string { return e.Outcome },
		Columns: []web.ListColumn[timeline.Entry]{
			{Name: "Newest", Sort: "time", Compare: web.CompareLatest(func(e *timeline.Entry) time.Time { return e.Began })},
			{Name: "Longest", Sort: "duration", Compare: web.CompareMost(func(e *timeline.Entry) time.Duration { return e.Took })},
			{Name: "Most attempts", Sort: "attempts", Compare: web.CompareMost(func(e *timeline.Entry) int { return e.Attempt })},
		},
	}
}

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

// addTriggers adds why an entry ran, and why the first run of the entry did.
func (l *Loader) addTriggers(s *Object, e *entry) {
	e.runTriggers = l.triggersOf(s, e.Run)
	if e.Review != nil {
		if full, err := l.Load(e.Process, e.ID); err == nil && full.Review() != nil {
			e.Review = full.Review()
		}
	}
	if len(e.Earlier) == 0 {
		return
	}
	first := l.triggersOf(s, *e.First())
	e.Trigger = &first
}

func bodyID(run *inspect.Run, step int, show string) string {
	return runElementID(run) + "-" + strconv.Itoa(step) + "-" + show
}
