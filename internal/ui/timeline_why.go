package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/timeline"
)

// why is an object that was another when a run asked than when it was asked before.
type why struct {
	diff.Part
	// Fields are the changes that are shown; More is how many are not.
	Fields []inspect.Change
	More   int
	// By is who changed it, as far as that is known.
	By []string
	// Others counts further objects, of which nothing is shown.
	Others int
}

// How many objects are shown of what changed before a run, and fields of each.
const (
	maxWhys   = 6
	maxFields = 6
)

type runKey struct {
	process string
	id      uint64
}

// lookup reads runs in full, each once.
type lookup struct {
	*visit
	runs map[runKey]inspect.Run
}

// run is a run in full, without what the visitor may not read.
func (l *lookup) run(process string, id uint64) (inspect.Run, error) {
	key := runKey{process, id}
	if known, ok := l.runs[key]; ok {
		return known, nil
	}
	source, err := l.source(process)
	if err != nil {
		return inspect.Run{}, err
	}
	run, err := inspect.AskOne(l.context(), l.patience, source, func(ctx context.Context, s inspect.Source) (inspect.Run, error) {
		return s.Run(ctx, id)
	})
	if err != nil {
		return inspect.Run{}, err
	}
	l.runs[key] = l.redact(run)
	return l.runs[key], nil
}

// explain says why an entry was run: what changed before it, and before the first that
// failed like it. Causes that say no more than that are left out.
func (l *lookup) explain(s *subject, e *entry) {
	e.reasons = l.reasons(s, e.Run)
	if e.Review != nil {
		if full, err := l.run(e.Process, e.Run.ID); err == nil && timeline.ReviewOf(&full) != nil {
			e.Review = timeline.ReviewOf(&full)
		}
	}
	if len(e.Earlier) == 0 {
		return
	}
	first := l.reasons(s, e.first)
	e.Trigger = &first
}

// reasons are why a run was.
type reasons struct {
	// Leads are causes that explain it whatever else changed, Whys what changed since the
	// same was asked before, and Rest what else brought it about.
	Leads, Rest []string
	Whys        []why
	// Beside is what changed too, and triggered nothing: such as a status that the
	// controller itself wrote.
	Beside []why
}

func (l *lookup) reasons(s *subject, run inspect.Run) reasons {
	if timeline.ReviewOf(&run) != nil {
		return reasons{Leads: run.Causes} // It is compared with nothing: a user wanted it.
	}
	var r reasons
	for _, w := range l.whys(s, run) {
		if triggers(&w.Part, run.Causes) {
			r.Whys = append(r.Whys, w)
			continue
		}
		r.Beside = append(r.Beside, w)
	}
	for _, cause := range unexplained(run.Causes, r.Whys) {
		if inspect.Leads(cause) {
			r.Leads = append(r.Leads, cause)
			continue
		}
		r.Rest = append(r.Rest, cause)
	}
	return r
}

// unexplained are the causes about which nothing more is known.
func unexplained(causes []string, whys []why) []string {
	var left []string
	for _, cause := range causes {
		if !slices.ContainsFunc(whys, func(w why) bool { return tells(&w.Part, cause) }) {
			left = append(left, cause)
		}
	}
	return left
}

// triggers says that a change is among the causes of a run. Where none are kept, any
// change may be.
func triggers(part *diff.Part, causes []string) bool {
	return len(causes) == 0 || part.Role == "controller" || part.Fate == wasCreated ||
		slices.ContainsFunc(causes, func(cause string) bool { return tells(part, cause) })
}

// tells says that a cause is no more than that this object changed.
func tells(part *diff.Part, cause string) bool {
	switch part.Role {
	case "object":
		return cause == "the object changed" || cause == "the object's status changed"
	case "controller":
		return false
	}
	name := part.Object.Name
	if part.Object.Namespace != "" {
		name = part.Object.Namespace + "/" + name
	}
	return strings.HasSuffix(cause, " "+part.Object.Kind.Kind+" "+name+" changed")
}

// find finds what changed since the same was asked before. What is not kept any more
// explains nothing. It is not known if a run cannot be read for now.
func (l *lookup) find(s *subject, of inspect.Run) (found []why, known bool) {
	if ask, _ := timeline.Main(of.Steps); ask == nil {
		return nil, true
	}
	full, err := l.run(of.Process, of.ID)
	if err != nil {
		return nil, errors.Is(err, inspect.ErrNotFound)
	}
	ask, at := timeline.Main(full.Steps)
	if ask == nil || len(ask.Request) == 0 {
		return nil, true
	}
	if ask.Previous == 0 {
		return first(s, ask, full.Began), true
	}
	earlier, since, err := l.before(&full, at)
	if err != nil {
		return nil, errors.Is(err, inspect.ErrNotFound)
	}
	if earlier == nil || len(earlier.Request) == 0 {
		return nil, true
	}
	parts, err := diff.Requests(earlier.Request, ask.Request)
	if err != nil {
		return nil, true
	}
	// Only some are shown: those that triggered the run first.
	slices.SortStableFunc(parts, func(a, b diff.Part) int {
		return cmp.Compare(rankOf(&a, full.Causes), rankOf(&b, full.Causes))
	})
	return whysOf(s, parts, since, full.Began), true
}

func rankOf(part *diff.Part, causes []string) int {
	if triggers(part, causes) {
		return 0
	}
	return 1
}

// before is when the same was asked before a step of a run: in the run itself, or in an
// earlier one. It is nil if that has no such question any more.
func (l *lookup) before(run *inspect.Run, step int) (ask *inspect.Ask, began time.Time, err error) {
	as := run.Steps[step].Ask
	if ask := timeline.Last(run.Steps[:step], as); ask != nil {
		return ask, run.Began, nil
	}
	earlier, err := l.run(run.Process, as.Previous)
	if err != nil {
		return nil, time.Time{}, err
	}
	return timeline.Last(earlier.Steps, as), earlier.Began, nil
}

// wasCreated is the fate of an object at its first run.
const wasCreated diff.Fate = "was created"

// first is who made an object, for the first run that asked about it.
func first(s *subject, ask *inspect.Ask, began time.Time) []why {
	created := s.Meta.CreationTimestamp.Time
	if s.Gone || began.Sub(created) > time.Minute {
		return nil
	}
	parts, err := diff.Requests(json.RawMessage("{}"), ask.Request)
	if err != nil || len(parts) == 0 || parts[0].Role != "object" || parts[0].Object.UID != s.UID {
		return nil
	}
	made := why{Part: parts[0], By: s.authors(parts[0], created, began)}
	made.Fate = wasCreated
	return []why{made}
}

func whysOf(s *subject, parts []diff.Part, since, until time.Time) []why {
	var whys []why
	for _, part := range parts {
		if len(whys) == maxWhys {
			whys[maxWhys-1].Others++
			continue
		}
		w := why{Part: part}
		switch part.Fate {
		case diff.Replaced:
			// Most of what differs is what makes it another: what was meant is told.
			w.Fields, _ = diff.Telling(meant(part.Changes), maxFields)
		case diff.Going:
		default:
			w.Fields, w.More = diff.Telling(part.Changes, maxFields)
		}
		if part.Role == "object" && part.Object.UID == s.UID {
			w.By = s.authors(part, since, until)
		}
		whys = append(whys, w)
	}
	return whys
}

// meant are the changes of fields outside of metadata and status that have a value on
// both sides.
func meant(changes []inspect.Change) []inspect.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c inspect.Change) bool {
		return c.From == nil || c.To == nil || strings.HasPrefix(c.Path, "status") || strings.HasPrefix(c.Path, "metadata")
	})
}

// authors are who changed the object, by what the API server notes in it.
func (s *subject) authors(part diff.Part, since, until time.Time) []string {
	managed, err := json.Marshal(s.Meta.ManagedFields)
	if err != nil {
		return nil
	}
	authors, err := diff.Authors(managed, part.Before, part.After, since, until)
	if err != nil {
		return nil
	}
	return authors
}

// someFields are the changes that are shown; More is how many are not.
type someFields struct {
	Fields []inspect.Change
	More   int
}

func tellingFields(changes []inspect.Change) (shown someFields) {
	shown.Fields, shown.More = diff.Telling(changes, maxFields)
	return shown
}
