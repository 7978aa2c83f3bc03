package inspect

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// The bounds of the history of one controller, and maxObjectRuns that of one object, so that a busy one does not displace
// the others.
const (
	maxControllerBytes = 4 << 20
	maxControllerRuns  = 1000
	maxObjectRuns      = 32
)

// controllerHistory is the history of one controller, by age and by object.
type controllerHistory struct {
	// entries are the runs, oldest first; the first stripped of them have no bodies left.
	entries  []*entry
	stripped int
	bytes    int
	// allowed is the number of reviews that allowed their request.
	allowed int
	objects map[objectKey]*objectHistory
	series  series
	calls   callCounters
	// remote reports that the webhook client counts the calls.
	remote bool
}

// objectHistory is the history of one object, oldest first.
type objectHistory struct {
	entries []*entry
	// noops is the number of runs without changes since the latest entry.
	noops int
}

// lastComparable returns the ID of the last run before the given one with a comparable call; 0 if there is none.
func (d *objectHistory) lastComparable(call *Call, before uint64) uint64 {
	for _, e := range slices.Backward(d.entries) {
		if call != nil && e.run.ID < before && LastComparable(e.run.Steps, call) != nil {
			return e.run.ID
		}
	}
	return 0
}

// clearNext removes the scheduled next run from earlier entries. Writes of daemons and reviews do not count as runs.
func (d *objectHistory) clearNext(run *Run) {
	if run.Trigger != "" {
		return
	}
	for _, e := range d.entries {
		e.run.Next = time.Time{}
	}
}

// addLocalCalls counts the calls of hooks that are functions of this process.
func (s *controllerHistory) addLocalCalls(run *Run) {
	if s.remote {
		return
	}
	for i := range run.Steps {
		call := run.Steps[i].Call
		if call != nil && (call.Sent.Sync != nil || call.Sent.Customize != nil) {
			s.calls.add(call.Name, CallOutcome(call.Err), run.Steps[i].Took)
		}
	}
}

func (s *controllerHistory) add(e *entry, run *Run) {
	d := s.objects[e.key]
	if d == nil {
		d = &objectHistory{}
	}
	most := maxObjectRuns
	if e.key.name == "" { // The API server has yet to generate the names: these are reviews of many objects.
		most = maxControllerRuns
	}
	if len(d.entries) >= most {
		s.remove(d.expendable())
	}
	d.clearNext(run)
	e.run.Noops, d.noops = d.noops, 0
	d.entries = append(d.entries, e)
	s.objects[e.key] = d
	s.entries = append(s.entries, e)
	s.bytes += e.size
	if e.allowed {
		s.allowed++
	}
}

// expendable returns the entry to remove first. Of an object that has failed since, it keeps the
// last successful run and the one after it: what happened between them explains the failures.
func (d *objectHistory) expendable() *entry {
	synced := func(e *entry) bool { return e.run.Outcome == record.Synced }
	if synced(d.entries[0]) && len(d.entries) > 2 && !slices.ContainsFunc(d.entries[1:], synced) {
		return d.entries[2]
	}
	return expendable(d.entries, len(lists.Filter(d.entries, func(e *entry) bool { return e.allowed })))
}

// expendable returns the entry to remove first: the oldest. As long as most entries are allowed
// reviews it is the oldest of those, since a busy webhook would displace its denials.
func expendable(entries []*entry, allowed int) *entry {
	if allowed > len(entries)/2 {
		return entries[slices.IndexFunc(entries, func(e *entry) bool { return e.allowed })]
	}
	return entries[0]
}

// trim enforces the bounds. A run larger than half of them is stripped.
func (s *controllerHistory) trim(bytes int) {
	if e := s.entries[len(s.entries)-1]; e.size > bytes/2 {
		s.strip(e)
	}
	for len(s.entries) > maxControllerRuns {
		s.remove(expendable(s.entries, s.allowed))
	}
	for s.bytes > bytes && s.shrink() {
	}
}

// shrink strips the oldest run with bodies, or else removes a run. It reports whether there was one.
func (s *controllerHistory) shrink() bool {
	switch {
	case s.stripped < len(s.entries):
		s.strip(s.entries[s.stripped])
		s.stripped++
	case len(s.entries) > 0:
		s.remove(expendable(s.entries, s.allowed))
	default:
		return false
	}
	return true
}

func (s *controllerHistory) strip(e *entry) {
	s.bytes -= e.size
	e.strip()
	s.bytes += e.size
}

func (s *controllerHistory) remove(e *entry) {
	at := slices.Index(s.entries, e)
	if at == 0 { // As most are: without a move of the others.
		s.entries[0], s.entries = nil, s.entries[1:]
	} else {
		s.entries = slices.Delete(s.entries, at, at+1)
	}
	if at < s.stripped {
		s.stripped--
	}
	d := s.objects[e.key]
	of := slices.Index(d.entries, e)
	if d.entries = slices.Delete(d.entries, of, of+1); len(d.entries) == 0 {
		delete(s.objects, e.key)
	}
	s.bytes -= e.size
	if e.allowed {
		s.allowed--
	}
}
