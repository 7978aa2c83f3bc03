package objects

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// incident is what is known about why an object fails since its last good run.
type incident struct {
	// LastGood and FirstFailure are runs; nil if they are no longer in the history.
	LastGood, FirstFailure *entry
	comparison
	// CompareURL compares both runs; "" if one is missing.
	CompareURL string
	// Actions retry now.
	Actions []web.Action
}

// comparison is what differs between two runs.
type comparison struct {
	// Objects changed between the calls of the runs.
	Objects []objectChange
	// FromVersion and ToVersion are the versions of the hooks; "" if they are the same. LogicCause
	// is why the later run says that they changed; "" for none.
	FromVersion, ToVersion, LogicCause string
	Code                               timeline.CodeChange
	// Responses is how logicVersion in the responses differs.
	Responses logicVersions
	// UnknownReason is why the calls cannot be compared; "" if they were.
	UnknownReason string

	before, after *inspect.Call
}

// logicVersions are the versions in two responses of a controller; equal if they are the same, or one is unknown.
type logicVersions struct {
	From, To string
	// Elsewhere reports that To is that of the latest responses for other objects, since the later call has none.
	Elsewhere bool
}

func (v logicVersions) Changed() bool { return v.From != v.To }

// logicVersionsOf compares the versions in the responses of two calls. A call that failed has no response:
// then the version that counts for its controller tells what the hook runs now.
func (l *Loader) logicVersionsOf(before, after *inspect.Call, later *inspect.Run) logicVersions {
	from, known := timeline.LogicVersion(before)
	if !known {
		return logicVersions{}
	}
	if to, known := timeline.LogicVersion(after); known {
		return logicVersions{From: from, To: to}
	}
	if t, c, err := l.Controller(later.Process, later.Controller); err == nil && t.Err == nil && c.LogicVersion != "" {
		return logicVersions{From: from, To: c.LogicVersion, Elsewhere: true}
	}
	return logicVersions{}
}

// Unchanged reports that the calls were compared, and nothing differs.
func (c comparison) Unchanged() bool {
	return c.UnknownReason == "" && len(c.Objects) == 0 && c.FromVersion == c.ToVersion && c.LogicCause == "" && c.Code.Since.IsZero() &&
		!c.Responses.Changed()
}

func (l *Loader) incident(s *Object, state *inspect.ObjectState, runs []inspect.Run) *incident {
	found := timeline.IncidentOf(runs, state)
	found.Extend(state)
	in := &incident{}
	if !inspect.AdviceFor(state.Fault).Waits {
		in.Actions = []web.Action{annotateAction(s, "reconcile", "Retry now", "again", l.Refusal("patch", s.Ref))}
	}
	for run, into := range map[*inspect.Run]**entry{found.LastGood: &in.LastGood, found.FirstFailure: &in.FirstFailure} {
		if run != nil {
			e := newEntry(s, timeline.Entry{Run: *run})
			*into = &e
		}
	}
	if in.LastGood == nil || in.FirstFailure == nil {
		return in
	}
	good, bad := found.LastGood, found.FirstFailure
	in.comparison = l.compare(s, good, bad)
	in.CompareURL = s.URL("runs", strconv.FormatUint(bad.ID, 10), "compare") + "?" +
		url.Values{"in": {bad.Process}, "with": {strconv.FormatUint(good.ID, 10)}}.Encode()
	return in
}

// compare compares the main call of a run with the comparable call of an earlier one.
func (l *Loader) compare(s *Object, earlier, run *inspect.Run) (c comparison) {
	good, errGood := l.Load(earlier.Process, earlier.ID)
	bad, errBad := l.Load(run.Process, run.ID)
	if cmp.Or(errGood, errBad) != nil {
		c.UnknownReason = "One of the runs is no longer in the history."
		return c
	}
	if c.after, _ = timeline.MainCall(bad.Steps); c.after != nil {
		c.before = inspect.LastComparable(good.Steps, c.after)
	}
	if c.before != nil && c.before.Version != c.after.Version {
		c.FromVersion, c.ToVersion = c.before.Version, c.after.Version
	}
	if i := slices.IndexFunc(bad.Causes, record.IsLogicCause); i >= 0 {
		c.LogicCause = bad.Causes[i]
	}
	c.Code = timeline.CompareCode(c.before, c.after)
	c.Responses = l.logicVersionsOf(c.before, c.after, &bad)
	switch {
	case c.after == nil:
		c.UnknownReason = "The run failed before it called the hook."
	case c.before == nil:
		c.UnknownReason = "The earlier run has no such call."
	case len(c.before.Request) == 0 || len(c.after.Request) == 0:
		c.UnknownReason = "A request is no longer in memory."
	default:
		var err error
		if c.Objects, err = objectChangesBetween(s, c.before, c.after, good.Began, &bad); err != nil {
			c.UnknownReason = "The requests are " + diff.ErrTooLarge.Error() + "."
		}
	}
	return c
}

type comparePage struct {
	*Object
	Earlier, Later entry
	comparison
	Request, Response Body
}

func compareRuns(req *Request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	loader := req.NewLoader()
	later, err := req.findRun(loader, s, req.Path("id"))
	if err != nil {
		return err
	}
	earlier, err := req.findRun(loader, s, req.Query("with"))
	if err != nil {
		return err
	}
	p := comparePage{Object: s, comparison: loader.compare(s, &earlier, &later)}
	p.Earlier, p.Later = newEntry(s, timeline.Entry{Run: earlier}), newEntry(s, timeline.Entry{Run: later})
	p.Request, p.Response = Body{ID: "compare-request"}, Body{ID: "compare-response"}
	if p.UnknownReason == "" {
		p.Request.compare(p.before.Request, p.after.Request)
		p.Response.compare(p.before.Response, p.after.Response)
	}
	if p.after != nil && p.after.Error != "" {
		p.Response.EmptyReason = "The later call has no response: " + diff.Shorten(p.after.Error, format.MaxShort)
	}
	return req.Render(web.Page{
		Name: "object_compare", Title: "Two runs of " + s.Kind.Kind + " " + s.Name, Section: "resources", Static: true, Data: p,
	})
}
