package objects

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/record"
)

type objectChange struct {
	diff.ObjectChange
	FieldChanges
	// Authors are the field managers that changed it, if known.
	Authors []string
	// Others is the number of further objects.
	Others int
}

// Limits of the shown changes.
const (
	maxObjectChanges = 6
	maxFields        = 6
)

// runTriggers are why a run happened.
type runTriggers struct {
	// LeadingCauses always explain a run. ObjectChanges changed since the previous call. OtherCauses are the rest.
	LeadingCauses, OtherCauses []string
	ObjectChanges              []objectChange
	// OtherChanges changed too without triggering the run, such as a status that the controller wrote.
	OtherChanges []objectChange
}

func (l *Loader) triggersOf(s *Object, run inspect.Run) runTriggers {
	if run.Review() != nil {
		return runTriggers{LeadingCauses: run.Causes} // A user request caused it, so there is nothing to compare.
	}
	var r runTriggers
	for _, w := range l.objectChanges(s, run) {
		if isTrigger(&w.ObjectChange, run.Causes) {
			r.ObjectChanges = append(r.ObjectChanges, w)
			continue
		}
		r.OtherChanges = append(r.OtherChanges, w)
	}
	for _, cause := range run.Causes {
		switch {
		case slices.ContainsFunc(r.ObjectChanges, func(w objectChange) bool { return matchesCause(&w.ObjectChange, cause) }):
		case record.IsPrimaryCause(cause):
			r.LeadingCauses = append(r.LeadingCauses, cause)
		default:
			r.OtherCauses = append(r.OtherCauses, cause)
		}
	}
	return r
}

// isTrigger reports whether a change is among the causes of a run. Without causes, any change may be.
func isTrigger(part *diff.ObjectChange, causes []string) bool {
	return len(causes) == 0 || part.Role == "controller" || part.Type == wasCreated ||
		slices.ContainsFunc(causes, func(cause string) bool { return matchesCause(part, cause) })
}

// matchesCause reports whether a cause says no more than that the object changed.
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

// findChanges returns what changed since the previous call. Runs that are no longer in memory
// explain nothing. It returns false if a run cannot be read now.
func (l *Loader) findChanges(s *Object, of inspect.Run) (found []objectChange, known bool) {
	if call, _ := timeline.MainCall(of.Steps); call == nil {
		return nil, true
	}
	full, err := l.Load(of.Process, of.ID)
	if err != nil {
		return nil, errors.Is(err, failure.ErrNotFound)
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
		return nil, errors.Is(err, failure.ErrNotFound)
	}
	if earlier == nil || len(earlier.Request) == 0 {
		return nil, true
	}
	found, _ = objectChangesBetween(s, earlier, call, since, &full) // What is too large to compare explains nothing.
	return found, true
}

// objectChangesBetween returns the objects that changed since an earlier call until one of a run. Triggers of the run come
// first, since only some are shown.
func objectChangesBetween(s *Object, earlier, later *inspect.Call, since time.Time, run *inspect.Run) ([]objectChange, error) {
	parts, err := diff.Requests(earlier.Request, later.Request)
	triggers := lists.Filter(parts, func(part diff.ObjectChange) bool { return isTrigger(&part, run.Causes) })
	others := lists.Filter(parts, func(part diff.ObjectChange) bool { return !isTrigger(&part, run.Causes) })
	return newObjectChanges(s, append(triggers, others...), since, run.Began), err
}

// wasCreated is the change type of a new object.
const wasCreated diff.ChangeType = "was created"

// creationChange returns who created an object, for its first run.
func creationChange(s *Object, call *inspect.Call, began time.Time) []objectChange {
	created := s.Meta.CreationTimestamp.Time
	if s.Deleted || began.Sub(created) > time.Minute {
		return nil
	}
	parts, err := diff.Requests(json.RawMessage("{}"), call.Request)
	if err != nil || len(parts) == 0 || parts[0].Role != "object" || parts[0].Object.UID != s.UID {
		return nil
	}
	made := newObjectChange(parts[0], FieldChanges{})
	made.Type, made.Authors = wasCreated, s.authors(parts[0], created, began)
	return []objectChange{made}
}

// newObjectChange returns a change without the compared objects, which are large.
func newObjectChange(part diff.ObjectChange, shown FieldChanges) objectChange {
	part.Changes, part.Before, part.After = nil, nil, nil
	shown.Fields = slices.Clone(shown.Fields)
	for i, f := range shown.Fields {
		shown.Fields[i] = inspect.Change{Path: f.Path, From: bytes.Clone(f.From), To: bytes.Clone(f.To)}
	}
	return objectChange{ObjectChange: part, FieldChanges: shown}
}

func newObjectChanges(s *Object, parts []diff.ObjectChange, since, until time.Time) []objectChange {
	var objectChanges []objectChange
	for _, part := range parts {
		if len(objectChanges) == maxObjectChanges {
			objectChanges[maxObjectChanges-1].Others++
			continue
		}
		var shown FieldChanges
		switch part.Type {
		case diff.Replaced:
			// Most differences follow from the replacement, so only spec changes are shown.
			shown.Fields = significantFields(specChanges(part.Changes)).Fields
		case diff.Terminating:
		default:
			shown = significantFields(part.Changes)
		}
		w := newObjectChange(part, shown)
		if part.Role == "object" && part.Object.UID == s.UID {
			w.Authors = s.authors(part, since, until)
		}
		objectChanges = append(objectChanges, w)
	}
	return objectChanges
}

// specChanges returns the changes outside of metadata and status with a value on both sides.
func specChanges(changes []inspect.Change) []inspect.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c inspect.Change) bool {
		return c.From == nil || c.To == nil || strings.HasPrefix(c.Path, "status") || strings.HasPrefix(c.Path, "metadata")
	})
}

// authors returns who changed the object, according to its managed fields.
func (s *Object) authors(part diff.ObjectChange, since, until time.Time) []string {
	managed, _ := json.Marshal(s.Meta.ManagedFields)                                 //nolint:errchkjson // It was JSON before.
	authors, _ := diff.FieldManagers(managed, part.Before, part.After, since, until) // Without them the page names nobody.
	return authors
}

// FieldChanges are the shown changes, and the number of others.
type FieldChanges struct {
	Fields []inspect.Change
	More   int
}

func significantFields(changes []inspect.Change) (shown FieldChanges) {
	shown.Fields, shown.More = diff.Significant(changes, maxFields)
	return shown
}

const maxActionFields = 30

// FirstFields returns as many changes as a page shows of a write, and the number of the others.
func FirstFields(changes []inspect.Change) FieldChanges {
	n := min(len(changes), maxActionFields)
	return FieldChanges{changes[:n], len(changes) - n}
}

// Runs never change, and finding the triggers of a run means reading two runs in full, so the
// result is cached. It expires because the permissions of the user may change. New runs are not
// cached, since their object may have been read before them.
const (
	changeTTL    = time.Minute
	changeMinAge = 5 * time.Second
)

// changeKey identifies a result: the serial of the user's Client, the object, and the run. IDs restart with a process.
type changeKey struct {
	reader     uint64
	process    string
	id         uint64
	began      int64
	uid        string
	controller string
}

// Memory limits: the approximate bytes of a cached result, and of what each of its parts takes beside its texts.
const (
	maxCacheEntryBytes  = 16 << 10
	changeOverheadBytes = 500
)

func changesSize(objectChanges []objectChange) int {
	size := changeOverheadBytes
	for i := range objectChanges {
		size += changeOverheadBytes
		for _, field := range objectChanges[i].Fields {
			size += changeOverheadBytes/2 + len(field.From) + len(field.To) + len(field.Path)
		}
	}
	return size
}

// objectChanges returns what changed since the previous call, from the cache if possible.
func (l *Loader) objectChanges(s *Object, of inspect.Run) []objectChange {
	key := changeKey{l.API.Serial(), of.Process, of.ID, of.Began.UnixNano(), s.UID, of.Controller}
	if cached, known := l.pages.changes.Get(key); known {
		return cached.([]objectChange) //nolint:forcetypeassert // Only this function adds to the cache.
	}
	objectChanges, known := l.findChanges(s, of)
	isFinal := known && l.AccessError() == nil && l.Now().Sub(of.Began) > of.Took+changeMinAge
	if isFinal && changesSize(objectChanges) <= maxCacheEntryBytes {
		l.pages.changes.Add(key, objectChanges, changeTTL)
	}
	return objectChanges
}
