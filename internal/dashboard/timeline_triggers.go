package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/diff"
)

// objectChange is an object that was another when a run asked than when it was asked before.
type objectChange struct {
	diff.ObjectChange
	// Fields are the changes that are shown; More is how many are not.
	Fields []model.Change
	More   int
	// Authors is who changed it, as far as that is known.
	Authors []string
	// Others counts further objects, of which nothing is shown.
	Others int
}

// How many objects are shown of what changed before a run, and fields of each.
const (
	maxObjectChanges = 6
	maxFields        = 6
)

type runKey struct {
	process string
	id      uint64
}

// runLoader reads runs in full, each once.
type runLoader struct {
	*request
	runs map[runKey]model.Run
}

// load is a run in full, without what the visitor may not read.
func (l *runLoader) load(process string, id uint64) (model.Run, error) {
	key := runKey{process, id}
	if known, ok := l.runs[key]; ok {
		return known, nil
	}
	source, err := l.source(process)
	if err != nil {
		return model.Run{}, err
	}
	run, err := model.QueryOne(l.context(), l.patience, source, func(ctx context.Context, s model.Source) (model.Run, error) {
		return s.Run(ctx, id)
	})
	if err != nil {
		return model.Run{}, err
	}
	l.runs[key] = l.redact(run)
	return l.runs[key], nil
}

// addTriggers says why an entry was run: what changed before it, and before the first that
// failed like it. Causes that say no more than that are left out.
func (l *runLoader) addTriggers(s *pageObject, e *entry) {
	e.runTriggers = l.triggersOf(s, e.Run)
	if e.Review != nil {
		if full, err := l.load(e.Process, e.Run.ID); err == nil && timeline.ReviewOf(&full) != nil {
			e.Review = timeline.ReviewOf(&full)
		}
	}
	if len(e.Earlier) == 0 {
		return
	}
	first := l.triggersOf(s, e.first)
	e.Trigger = &first
}

// runTriggers are why a run was.
type runTriggers struct {
	// LeadingCauses are causes that explain it whatever else changed, Whys what changed since the
	// same was asked before, and Rest what else brought it about.
	LeadingCauses, OtherCauses []string
	ObjectChanges              []objectChange
	// OtherChanges is what changed too, and triggered nothing: such as a status that the
	// controller itself wrote.
	OtherChanges []objectChange
}

func (l *runLoader) triggersOf(s *pageObject, run model.Run) runTriggers {
	if timeline.ReviewOf(&run) != nil {
		return runTriggers{LeadingCauses: run.Causes} // It is compared with nothing: a user wanted it.
	}
	var r runTriggers
	for _, w := range l.objectChanges(s, run) {
		if isTrigger(&w.ObjectChange, run.Causes) {
			r.ObjectChanges = append(r.ObjectChanges, w)
			continue
		}
		r.OtherChanges = append(r.OtherChanges, w)
	}
	for _, cause := range unexplainedCauses(run.Causes, r.ObjectChanges) {
		if model.IsPrimaryCause(cause) {
			r.LeadingCauses = append(r.LeadingCauses, cause)
			continue
		}
		r.OtherCauses = append(r.OtherCauses, cause)
	}
	return r
}

// unexplainedCauses are the causes about which nothing more is known.
func unexplainedCauses(causes []string, objectChanges []objectChange) []string {
	var left []string
	for _, cause := range causes {
		if !slices.ContainsFunc(objectChanges, func(w objectChange) bool { return matchesCause(&w.ObjectChange, cause) }) {
			left = append(left, cause)
		}
	}
	return left
}

// isTrigger says that a change is among the causes of a run. Where none are kept, any
// change may be.
func isTrigger(part *diff.ObjectChange, causes []string) bool {
	return len(causes) == 0 || part.Role == "controller" || part.Type == wasCreated ||
		slices.ContainsFunc(causes, func(cause string) bool { return matchesCause(part, cause) })
}

// matchesCause says that a cause is no more than that this object changed.
func matchesCause(part *diff.ObjectChange, cause string) bool {
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

// findChanges finds what changed since the same was asked before. What is not kept any more
// explains nothing. It is not known if a run cannot be read for now.
func (l *runLoader) findChanges(s *pageObject, of model.Run) (found []objectChange, known bool) {
	if call, _ := timeline.MainCall(of.Steps); call == nil {
		return nil, true
	}
	full, err := l.load(of.Process, of.ID)
	if err != nil {
		return nil, errors.Is(err, model.ErrNotFound)
	}
	call, at := timeline.MainCall(full.Steps)
	if call == nil || len(call.Request) == 0 {
		return nil, true
	}
	if call.Previous == 0 {
		return creationChange(s, call, full.Began), true
	}
	earlier, since, err := l.previousCall(&full, at)
	if err != nil {
		return nil, errors.Is(err, model.ErrNotFound)
	}
	if earlier == nil || len(earlier.Request) == 0 {
		return nil, true
	}
	parts, err := diff.Requests(earlier.Request, call.Request)
	if err != nil {
		return nil, true
	}
	// Only some are shown: those that triggered the run first.
	slices.SortStableFunc(parts, func(a, b diff.ObjectChange) int {
		return cmp.Compare(triggerRank(&a, full.Causes), triggerRank(&b, full.Causes))
	})
	return newObjectChanges(s, parts, since, full.Began), true
}

func triggerRank(part *diff.ObjectChange, causes []string) int {
	if isTrigger(part, causes) {
		return 0
	}
	return 1
}

// previousCall is when the same was asked before a step of a run: in the run itself, or in an
// earlier one. It is nil if that has no such question any more.
func (l *runLoader) previousCall(run *model.Run, step int) (call *model.Call, began time.Time, err error) {
	as := run.Steps[step].Call
	if call := timeline.LastComparable(run.Steps[:step], as); call != nil {
		return call, run.Began, nil
	}
	earlier, err := l.load(run.Process, as.Previous)
	if err != nil {
		return nil, time.Time{}, err
	}
	return timeline.LastComparable(earlier.Steps, as), earlier.Began, nil
}

// wasCreated is the fate of an object at its first run.
const wasCreated diff.ChangeType = "was created"

// creationChange is who made an object, for the first run that asked about it.
func creationChange(s *pageObject, call *model.Call, began time.Time) []objectChange {
	created := s.Meta.CreationTimestamp.Time
	if s.Deleted || began.Sub(created) > time.Minute {
		return nil
	}
	parts, err := diff.Requests(json.RawMessage("{}"), call.Request)
	if err != nil || len(parts) == 0 || parts[0].Role != "object" || parts[0].Object.UID != s.UID {
		return nil
	}
	made := objectChange{ObjectChange: parts[0], Authors: s.authors(parts[0], created, began)}
	made.Type = wasCreated
	return []objectChange{made}
}

func newObjectChanges(s *pageObject, parts []diff.ObjectChange, since, until time.Time) []objectChange {
	var objectChanges []objectChange
	for _, part := range parts {
		if len(objectChanges) == maxObjectChanges {
			objectChanges[maxObjectChanges-1].Others++
			continue
		}
		w := objectChange{ObjectChange: part}
		switch part.Type {
		case diff.Replaced:
			// Most of what differs is what makes it another: what was meant is told.
			w.Fields, _ = diff.Significant(specChanges(part.Changes), maxFields)
		case diff.Terminating:
		default:
			w.Fields, w.More = diff.Significant(part.Changes, maxFields)
		}
		if part.Role == "object" && part.Object.UID == s.UID {
			w.Authors = s.authors(part, since, until)
		}
		objectChanges = append(objectChanges, w)
	}
	return objectChanges
}

// specChanges are the changes of fields outside of metadata and status that have a value on
// both sides.
func specChanges(changes []model.Change) []model.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c model.Change) bool {
		return c.From == nil || c.To == nil || strings.HasPrefix(c.Path, "status") || strings.HasPrefix(c.Path, "metadata")
	})
}

// authors are who changed the object, by what the API server notes in it.
func (s *pageObject) authors(part diff.ObjectChange, since, until time.Time) []string {
	managed, err := json.Marshal(s.Meta.ManagedFields)
	if err != nil {
		return nil
	}
	authors, err := diff.FieldManagers(managed, part.Before, part.After, since, until)
	if err != nil {
		return nil
	}
	return authors
}

// fieldChanges are the changes that are shown; More is how many are not.
type fieldChanges struct {
	Fields []model.Change
	More   int
}

func significantFields(changes []model.Change) (shown fieldChanges) {
	shown.Fields, shown.More = diff.Significant(changes, maxFields)
	return shown
}
