package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// objectChange is an object that changed between two calls.
type objectChange struct {
	diff.ObjectChange
	fieldChanges
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

type runKey struct {
	process string
	id      uint64
}

// runLoader loads full runs, each once.
type runLoader struct {
	*request
	runs map[runKey]inspect.Run
	// tokens stand for the values of Secrets, instead of the mask.
	tokens bool
}

// load returns a run without what the user may not read.
func (l *runLoader) load(process string, id uint64) (inspect.Run, error) {
	key := runKey{process, id}
	if known, ok := l.runs[key]; ok {
		return known, nil
	}
	source, err := l.Source(process)
	if err != nil {
		return inspect.Run{}, err
	}
	run, err := inspect.QueryOne(l.Context(), l.Processes.Timeouts, source, func(ctx context.Context, s inspect.Source) (inspect.Run, error) {
		if calls, can := s.(inspect.CallSource); can && l.tokens {
			return calls.RunWithTokens(ctx, id)
		}
		return s.Run(ctx, id)
	})
	if err != nil {
		return inspect.Run{}, err
	}
	l.runs[key] = l.redact(run)
	return l.runs[key], nil
}

// addTriggers adds why an entry ran, and why the first run of the entry did.
func (l *runLoader) addTriggers(s *pageObject, e *entry) {
	e.runTriggers = l.triggersOf(s, e.Run)
	if e.Review != nil {
		if full, err := l.load(e.Process, e.ID); err == nil && full.Review() != nil {
			e.Review = full.Review()
		}
	}
	if len(e.Earlier) == 0 {
		return
	}
	first := l.triggersOf(s, *e.First())
	e.Trigger = &first
}

// runTriggers are why a run happened.
type runTriggers struct {
	// LeadingCauses always explain a run. ObjectChanges changed since the previous call.
	// OtherCauses are the rest.
	LeadingCauses, OtherCauses []string
	ObjectChanges              []objectChange
	// OtherChanges changed too without triggering the run, such as a status that the controller
	// wrote.
	OtherChanges []objectChange
}

func (l *runLoader) triggersOf(s *pageObject, run inspect.Run) runTriggers {
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
	for _, cause := range unexplainedCauses(run.Causes, r.ObjectChanges) {
		if inspect.IsPrimaryCause(cause) {
			r.LeadingCauses = append(r.LeadingCauses, cause)
			continue
		}
		r.OtherCauses = append(r.OtherCauses, cause)
	}
	return r
}

// unexplainedCauses returns the causes without an object change.
func unexplainedCauses(causes []string, objectChanges []objectChange) []string {
	var left []string
	for _, cause := range causes {
		if !slices.ContainsFunc(objectChanges, func(w objectChange) bool { return matchesCause(&w.ObjectChange, cause) }) {
			left = append(left, cause)
		}
	}
	return left
}

// isTrigger reports whether a change is among the causes of a run. Without causes, any change
// may be.
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
func (l *runLoader) findChanges(s *pageObject, of inspect.Run) (found []objectChange, known bool) {
	if call, _ := timeline.MainCall(of.Steps); call == nil {
		return nil, true
	}
	full, err := l.load(of.Process, of.ID)
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
	parts, err := diff.Requests(earlier.Request, call.Request)
	if err != nil {
		return nil, true
	}
	// Triggers come first, since only some are shown.
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

// previousCall returns the previous comparable call, in the same run or in an earlier one; nil
// if it is no longer in memory.
func (l *runLoader) previousCall(run *inspect.Run, step int) (call *inspect.Call, began time.Time, err error) {
	as := run.Steps[step].Call
	if call := inspect.LastComparable(run.Steps[:step], as); call != nil {
		return call, run.Began, nil
	}
	earlier, err := l.load(run.Process, as.Previous)
	if err != nil {
		return nil, time.Time{}, err
	}
	return inspect.LastComparable(earlier.Steps, as), earlier.Began, nil
}

// wasCreated is the change type of a new object.
const wasCreated diff.ChangeType = "was created"

// creationChange returns who created an object, for its first run.
func creationChange(s *pageObject, call *inspect.Call, began time.Time) []objectChange {
	created := s.Meta.CreationTimestamp.Time
	if s.Deleted || began.Sub(created) > time.Minute {
		return nil
	}
	parts, err := diff.Requests(json.RawMessage("{}"), call.Request)
	if err != nil || len(parts) == 0 || parts[0].Role != "object" || parts[0].Object.UID != s.UID {
		return nil
	}
	made := newObjectChange(parts[0], fieldChanges{})
	made.Type, made.Authors = wasCreated, s.authors(parts[0], created, began)
	return []objectChange{made}
}

// newObjectChange returns a change without the compared objects, which are large.
func newObjectChange(part diff.ObjectChange, shown fieldChanges) objectChange {
	part.Changes, part.Before, part.After = nil, nil, nil
	shown.Fields = slices.Clone(shown.Fields)
	for i, f := range shown.Fields {
		shown.Fields[i] = inspect.Change{Path: f.Path, From: bytes.Clone(f.From), To: bytes.Clone(f.To)}
	}
	return objectChange{ObjectChange: part, fieldChanges: shown}
}

func newObjectChanges(s *pageObject, parts []diff.ObjectChange, since, until time.Time) []objectChange {
	var objectChanges []objectChange
	for _, part := range parts {
		if len(objectChanges) == maxObjectChanges {
			objectChanges[maxObjectChanges-1].Others++
			continue
		}
		var shown fieldChanges
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

// fieldChanges are the shown changes, and the number of others.
type fieldChanges struct {
	Fields []inspect.Change
	More   int
}

func significantFields(changes []inspect.Change) (shown fieldChanges) {
	shown.Fields, shown.More = diff.Significant(changes, maxFields)
	return shown
}

// maxActionFields limits the changes of a planned write.
const maxActionFields = 30

func firstFields(changes []inspect.Change) fieldChanges {
	n := min(len(changes), maxActionFields)
	return fieldChanges{changes[:n], len(changes) - n}
}

// Story is the timeline of a violation that an exploration has found.
type Story struct {
	Name, Property, Violation string
	// Ways are the steps, and those to the other end that the violation speaks of.
	Ways []StoryWay
}

// StoryWay is a sequence of steps.
type StoryWay struct {
	Title string
	Steps []StoryStep
}

// StoryStep is a step, what it changes, and the state after it.
type StoryStep struct {
	Number int
	// Lane is one of the StoryPage's.
	Lane, Text string
	// Repeats marks the first of the steps that go on for ever.
	Repeats bool
	Changes []StoryChange
	Objects []StoryObject
}

// StoryChange is a change of an object.
type StoryChange struct {
	Object string
	// What is "created", "deleted" or "changed".
	What   string
	Fields []object.FieldChange
}

// StoryObject is an object after a step, as YAML.
type StoryObject struct{ Name, YAML string }

// StoryPage has the timelines of some stories.
type StoryPage struct {
	Version string
	// Lanes are those who make steps, from left to right.
	Lanes   []string
	Stories []Story
}

// Title is that of the page.
func (p *StoryPage) Title() string {
	if len(p.Stories) == 1 {
		return p.Stories[0].Name
	}
	return "Stories"
}

// LaneNumber returns the column of a lane, from 1.
func (p *StoryPage) LaneNumber(lane string) int { return slices.Index(p.Lanes, lane) + 1 }

// Style is the element with the styles of all pages: this one loads no files.
func (*StoryPage) Style() (template.HTML, error) {
	all, err := web.LoadAssets(assetFiles)
	style := slices.Concat([]byte("<style>"), all["app.css"].Data, all["object.css"].Data, []byte("</style>"))
	return template.HTML(style), err //nolint:gosec // The files are ours.
}

// Write writes a page that needs no server and no scripts.
func (p *StoryPage) Write(w io.Writer) error {
	pages, err := web.ParseTemplates(templateFiles, templateFuncs(&web.Site{Now: time.Now}))
	if err != nil {
		return err
	}
	page := pages["stories"]
	if page == nil {
		return errors.New("there is no page of stories")
	}
	return page.ExecuteTemplate(w, "document", p)
}
