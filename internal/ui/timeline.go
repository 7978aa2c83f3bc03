package ui

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/timeline"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// entry is one run in the timeline of an object.
type entry struct {
	inspect.Run
	// ID is the entry's own on the page, the same each time it is shown.
	ID string
	// URL is where all of the run is.
	URL string
	// Review is what it decided, of a review of admission, and By the webhook that did;
	// else nil and "".
	Review *inspect.Review
	By     string
	// reasons are why it was, and Deeds what it did.
	reasons
	Deeds []deed
	// Headline says what came of it, and Tone in what colour: a run that went well and
	// wrote nothing is no news.
	Headline, Tone string
	Fault          *fault
	Bar            bar
	// Earlier are runs right before that failed in the same way; More is how many of
	// them are not shown. Times is how many runs there are with them, Since when the
	// first of them began.
	Earlier []entry
	More    int
	Times   int
	Since   time.Time
	// first is the first of them.
	first inspect.Run
	// Trigger is why the first of them was run, where that is not the last.
	Trigger *reasons
	// Another says that the object was another one of the same name.
	Another bool
	// Deletion says that it is no run, but the deletion of the object.
	Deletion bool
}

// runsOf are the runs of an object in all processes, the latest first, and why some may
// be missing.
func (v *visit) runsOf(s *subject, limit int) (all []inspect.Run, missing []string) {
	ref := s.Ref
	ref.UID = "" // One of the same name that was there before is part of the story.
	found, missing := each(v, func(ctx context.Context, s inspect.Source) ([]inspect.Run, error) { return s.Runs(ctx, ref, limit) })
	for _, run := range slices.Concat(found...) {
		all = append(all, v.redact(run))
	}
	return timeline.Ordered(all), missing
}

// redact leaves out of a run what the visitor may not read.
func (v *visit) redact(run inspect.Run) inspect.Run { return inspect.Redact(run, v.reads) }

// entries are the timeline, down to so many. What changed before is looked for in the
// latest of them alone.
func (v *visit) entries(s *subject, runs []inspect.Run, limit int) []entry {
	found := timeline.Entries(runs)
	found = found[:min(len(found), limit)]
	all := make([]entry, 0, len(found))
	for _, each := range found {
		one := gathered(s, each)
		if one.Deletion {
			one.Headline = timeline.Deleted(timeline.DeletedBy(runs, &each.Run))
		}
		all = append(all, one)
	}
	look := &lookup{visit: v, runs: map[runKey]inspect.Run{}}
	for i := range all[:min(len(all), someEntries)] {
		if !all[i].Deletion {
			look.explain(s, &all[i])
		}
	}
	return all
}

func newEntry(s *subject, run inspect.Run) entry {
	e := entry{
		Run: run, ID: "run-" + run.Process + "-" + strconv.FormatUint(run.ID, 10), URL: runURL(s, run.Process, run.ID),
		Deeds: news(deedsOf(run.Steps), run.Error), Bar: barOf(&run),
		Times: 1, Since: run.Began, first: run, reasons: reasons{Rest: run.Causes},
		Another: s.UID != "" && run.Object.UID != "" && run.Object.UID != s.UID, Deletion: timeline.Deletes(&run),
	}
	if e.Review = timeline.ReviewOf(&run); e.Review != nil {
		e.By = run.Steps[0].Ask.What
	}
	if run.Error != "" {
		e.Fault = explain(run.Error, run.Fault, "The run failed")
	}
	e.Headline, e.Tone = headline(&e), tone(run.Outcome)
	if run.Outcome == "synced" && len(e.Deeds) == 0 {
		e.Tone = "calm"
	}
	return e
}

func runURL(s *subject, process string, id uint64) string {
	return s.URL("runs", strconv.FormatUint(id, 10)) + "?" + url.Values{"in": {process}}.Encode()
}

// maxEarlier is how many runs that failed alike are listed below the last.
const maxEarlier = 50

// gathered is an entry with the runs before it that failed in the same way.
func gathered(s *subject, of timeline.Entry) entry {
	e := newEntry(s, of.Run)
	e.Times, e.Since, e.first = of.Times(), of.Since(), *of.First()
	for _, run := range of.Earlier[:min(len(of.Earlier), maxEarlier)] {
		e.Earlier = append(e.Earlier, newEntry(s, run))
	}
	e.More = len(of.Earlier) - len(e.Earlier)
	return e
}

// ControllerName is the last part of the controller's name, which is its own.
func (e entry) ControllerName() string { return shortController(e.Controller) }

// deed is something that a run wrote or told.
type deed struct {
	// Sign is "+", "~", "−" or "!", and Tone as for badges.
	Sign, Tone string
	Verb       string
	Object     inspect.Ref
	// Text says more: why, or what was told.
	Text, Error string
}

// deedsOf are what was written, with the reason for which it was planned, and events.
func deedsOf(steps []inspect.Step) []deed {
	var deeds []deed
	reasons := map[inspect.Ref]string{}
	for _, step := range steps {
		switch {
		case step.Plan != nil:
			for _, a := range step.Plan.Actions {
				reasons[bare(a.Object)] = a.Reason
			}
		case step.Write != nil:
			deeds = append(deeds, wrote(step.Write, reasons[bare(step.Write.Object)]))
		case step.Event != nil:
			deeds = append(deeds, deed{
				Sign: "!", Tone: tone(step.Event.Type), Verb: "told", Text: step.Event.Reason + ": " + step.Event.Message,
			})
		}
	}
	return deeds
}

// news are the deeds that do more than tell again what the run failed with.
func news(deeds []deed, failure string) []deed {
	return slices.DeleteFunc(deeds, func(d deed) bool {
		return d.Sign == "!" && failure != "" && strings.Contains(d.Text, failure[:min(len(failure), 200)])
	})
}

// bare is a reference by what any two that mean one object have in common.
func bare(ref inspect.Ref) inspect.Ref {
	return inspect.Ref{Kind: inspect.Kind{Group: ref.Group, Kind: ref.Kind.Kind}, Namespace: ref.Namespace, Name: ref.Name}
}

func wrote(w *inspect.Write, reason string) deed {
	d := deed{Sign: signOf(w.Verb), Tone: "wait", Verb: w.Verb, Object: w.Object, Error: w.Error, Text: reason}
	switch {
	case w.Part != "":
		d.Verb, d.Text = w.Verb+" the "+w.Part+" of", ""
	case w.Unchanged:
		d.Tone, d.Text = "calm", "it made no difference"
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

// headline says what came of a run in a few words.
func headline(e *entry) string {
	switch e.Outcome {
	case string(trace.Deleted):
		return timeline.Deleted("")
	case "failed":
		if e.Fault != nil {
			return e.Fault.Title
		}
		return "Failed"
	case "postponed":
		return "Postponed"
	}
	return cmp.Or(timeline.Decision(&e.Run), done(e))
}

// done says what a run that went well wrote.
func done(e *entry) string {
	var writes []deedCount
	asked := false
	for i := range e.Steps {
		if w := e.Steps[i].Write; w != nil && !w.Unchanged && w.Error == "" {
			writes = addDeed(writes, past(w.Verb), what(w, &e.Object))
		}
		asked = asked || e.Steps[i].Ask != nil
	}
	switch {
	case len(writes) > 2:
		return title(tally(writes))
	case len(writes) > 0:
		var parts []string
		for _, w := range writes {
			parts = append(parts, w.did+" "+w.what+w.times())
		}
		return title(strings.Join(parts, ", "))
	case asked:
		return "Asked: nothing to do"
	}
	return "Nothing to do"
}

// deedCount is how often one thing was written in one way.
type deedCount struct {
	did, what string
	n         int
}

func addDeed(all []deedCount, did, what string) []deedCount {
	for i := range all {
		if all[i].did == did && all[i].what == what {
			all[i].n++
			return all
		}
	}
	return append(all, deedCount{did, what, 1})
}

func (d deedCount) times() string {
	switch d.n {
	case 1:
		return ""
	case 2:
		return " twice"
	}
	return " " + strconv.Itoa(d.n) + " times"
}

const itself = "the object itself"

// what is the object of a write in a few words.
func what(w *inspect.Write, self *inspect.Ref) string {
	switch own := bare(w.Object) == bare(*self); {
	case own && w.Part != "":
		return "its " + w.Part
	case own:
		return itself
	case w.Part != "":
		return "the " + w.Part + " of " + w.Object.Kind.Kind + " " + shorten(w.Object.Name)
	}
	return w.Object.Kind.Kind + " " + shorten(w.Object.Name)
}

// tally counts objects by what was done to them, each once: "deleted 1, created 2". What
// was written to the object itself is named.
func tally(writes []deedCount) string {
	var order []string
	counts := map[string]int{}
	for _, w := range writes {
		did := w.did
		if strings.HasPrefix(w.what, "its ") || w.what == itself {
			did += " " + w.what + w.times()
		}
		if counts[did] == 0 {
			order = append(order, did)
		}
		counts[did]++
	}
	for i, did := range order {
		if !strings.Contains(did, " ") {
			order[i] = did + " " + strconv.Itoa(counts[did])
		}
	}
	return strings.Join(order, ", ")
}

// past is a verb of a write as it is told afterwards.
func past(verb string) string {
	if verb == "apply" {
		return "applied"
	}
	return strings.TrimSuffix(verb, "e") + "ed"
}
