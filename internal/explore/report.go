package explore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Report is what a search has found.
type Report struct {
	// States and Steps count what was explored, Runs, Deliveries and Requests what had to be computed for it.
	States     int `json:"states"`
	Steps      int `json:"steps"`
	Runs       int `json:"runs"`
	Deliveries int `json:"deliveries"`
	Requests   int `json:"requests"`
	// HookCalls counts the calls of hooks.
	HookCalls int     `json:"hookCalls"`
	Seconds   float64 `json:"seconds"`
	Workers   int     `json:"workers"`
	Bounds    Bounds  `json:"bounds"`
	// Complete says what was explored completely, in a sentence; Cut why not more, empty if it is all within the bounds.
	Complete string `json:"complete"`
	Cut      string `json:"cut,omitempty"`
	// Holds are the properties without a violation within the bounds, Unchecked those that were left out.
	Holds      []property.Property    `json:"holds,omitempty"`
	Unchecked  []property.Property    `json:"unchecked,omitempty"`
	Violations []counterexample.Story `json:"violations,omitempty"`
	// NotVaried is what was the same in all states.
	NotVaried []string `json:"notVaried,omitempty"`
	// Suggested are invariants that hold, if there are none and nothing is violated.
	Suggested []property.Invariant `json:"suggested,omitempty"`
	// Unmade are the edits of authors that were never made.
	Unmade []UnmadeEdit `json:"unmade,omitempty"`
	Notes  []string     `json:"notes,omitempty"`
}

// Passed reports whether nothing is violated, and no edit failed.
func (r *Report) Passed() bool {
	return len(r.Violations) == 0 && !slices.ContainsFunc(r.Unmade, func(u UnmadeEdit) bool { return u.Failed })
}

// report sums the search up.
func (s *search) report() *Report {
	r := &Report{
		States: len(s.Nodes), Steps: s.Steps, Runs: int(s.Computed.Steps.Load()), Deliveries: int(s.Computed.Deliveries.Load()),
		Requests: int(s.Computed.Requests.Load()),
		Seconds:  s.took.Seconds(), Workers: len(s.workers), Bounds: s.options.Bounds, Unchecked: s.options.Unchecked, Cut: s.stopped,
	}
	if omitting, does := s.workers[0].Process.(interface{ Omissions() []string }); does {
		r.Notes = append(r.Notes, omitting.Omissions()...)
	}
	for _, f := range s.found {
		r.Violations = append(r.Violations, s.story(f))
	}
	order := slices.Clone(property.Properties)
	for _, i := range s.Invariants {
		order = append(order, property.Property(i.Name))
	}
	slices.SortStableFunc(r.Violations, func(a, b counterexample.Story) int {
		return slices.Index(order, a.Property) - slices.Index(order, b.Property)
	})
	for _, p := range order {
		if !slices.Contains(s.options.Unchecked, p) && !r.violates(p) && s.wasChecked(p) {
			r.Holds = append(r.Holds, p)
		}
	}
	r.Complete = s.completeness()
	if len(s.options.Invariants)+len(r.Violations) == 0 {
		r.Suggested = s.suggested()
	}
	if s.options.shared != "" {
		r.Notes = append(r.Notes, "All objects were explored together: "+s.options.shared+".")
	}
	s.addNotes(r)
	return r
}

// addNotes adds what was noticed besides violations.
func (s *search) addNotes(r *Report) {
	all := s.allNotes()
	var refused string
	if r.Unmade, refused = s.unmade(); refused != "" {
		r.Notes = append(r.Notes, refused)
	}
	if s.graphChecked && all.rests == 0 {
		r.Notes = append(r.Notes, "No state of rest was found, so what speaks of one was not checked.")
	}
	if all.failing > 0 && slices.Contains(s.options.Unchecked, property.Reconciled) {
		r.Notes = append(r.Notes, fmt.Sprintf("In %d of %d states of rest a reconcile fails: %s", all.failing, all.rests, all.failure))
	}
	r.Notes = append(r.Notes, s.ends.Ineffective(s.Edits)...)
	if all.renewing {
		r.Notes = append(r.Notes, "It comes to rest only as long as no pod ends: new ones replace those that do.")
	}
}

func (s *search) allNotes() (all notes) {
	for _, layer := range s.notes {
		all.add(layer)
	}
	return all
}

// wasChecked reports whether the search has looked for violations of a property.
func (s *search) wasChecked(p property.Property) bool {
	switch {
	case p == property.Deterministic || p == property.Valid:
		return true
	case property.IsAboutRest(p, s.options.Invariants):
		return s.graphChecked && s.allNotes().rests > 0
	}
	return s.graphChecked || !slices.Contains(property.Properties, p)
}

func (r *Report) violates(p property.Property) bool {
	return slices.ContainsFunc(r.Violations, func(v counterexample.Story) bool { return v.Property == p })
}

// notExplored returns an error if no call of a hook succeeded: then nothing of the logic was explored.
func (r *Report) notExplored(memo *loop.Memo) error {
	fails := func(v counterexample.Story) bool { return v.Property == property.Reconciled }
	if memo == nil || slices.ContainsFunc(r.Violations, func(v counterexample.Story) bool { return !fails(v) }) {
		return nil
	}
	calls, errs, first := 0, 0, error(nil)
	for _, h := range memo.Stats() {
		calls, errs = calls+h.Calls, errs+h.Errors
		if first == nil && h.FirstError != nil {
			first = fmt.Errorf("%s: %w", h.Hook, h.FirstError)
		}
	}
	switch {
	case calls == 0 && r.Cut != "":
		return fmt.Errorf("no hook was called, so that nothing was explored: %s", r.Cut)
	case calls == 0:
		return errNoCalls
	case errs < calls:
		return nil
	}
	return fmt.Errorf("all %d calls of hooks failed, so that nothing was explored; the first: %w", calls, first)
}

// errNoCalls says what to check if nothing that happens concerns a controller.
var errNoCalls = errors.New("no hook was called, so that nothing was explored: check that a controller selects the objects by their " +
	"kind, namespace, labels and annotations, that it is not suspended, and that what makes a handler run (on, when) can happen within " +
	"the bounds")

// slowCall is how long a call of a hook may take on average without a remark.
const slowCall = 50 * time.Millisecond

// completeness says what was explored completely.
func (s *search) completeness() string {
	bounds := s.options.Bounds
	if s.stopped == "" {
		return fmt.Sprintf("everything with at most %s, %s and %s", phrase.Count(bounds.Edits, "edit"),
			phrase.Count(bounds.Crashes, "crash"), phrase.Count(bounds.Faults, "fault"))
	}
	if s.depth >= len(s.pending[s.layer]) {
		return fmt.Sprintf("everything with at most %d of edits, crashes and faults", s.layer)
	}
	text := fmt.Sprintf("with %d of edits, crashes and faults everything to a depth of %s", s.layer, phrase.Count(s.depth, "step"))
	if s.layer > 0 {
		text = fmt.Sprintf("everything with at most %d of edits, crashes and faults; ", s.layer-1) + text
	}
	return text
}

// String returns the report for a terminal.
func (r *Report) String() string {
	var b strings.Builder
	seconds := max(r.Seconds, 0.001)
	fmt.Fprintf(&b, "Explored %d states and %d steps in %.1f s (%.0f states per second and core); %d hook calls.\n",
		r.States, r.Steps, r.Seconds, float64(r.States)/seconds/float64(max(1, r.Workers)), r.HookCalls)
	fmt.Fprintf(&b, "Complete: %s.\n", r.Complete)
	if r.Cut != "" {
		fmt.Fprintf(&b, "Not all within the bounds was explored: %s.\n", r.Cut)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(&b, note)
	}
	for _, u := range r.Unmade {
		prefix := ""
		if u.Failed {
			prefix = "Failed: "
		}
		fmt.Fprintf(&b, "%s%s.\n", prefix, u)
	}
	if len(r.NotVaried) > 0 {
		fmt.Fprintf(&b, "Not varied: %s.\n", strings.Join(r.NotVaried, "; "))
	}
	if len(r.Holds) > 0 {
		where := "within these bounds"
		if r.Cut != "" {
			where = "in what was explored"
		}
		fmt.Fprintf(&b, "No violation %s: %s.\n", where, property.Join(r.Holds))
	}
	if len(r.Suggested) > 0 {
		b.WriteString("Which child goes first is not checked. If it is meant, invariants keep what was so without faults:\n")
	}
	for _, i := range r.Suggested {
		fmt.Fprintf(&b, "- {name: %q, step: %q}\n", i.Name, i.Step)
	}
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(&b, "Not checked: %s.\n", property.Join(r.Unchecked))
	}
	for i := range r.Violations {
		b.WriteString("\nViolated: ")
		r.Violations[i].Write(&b)
	}
	return b.String()
}

// exploredApart is how the note about groups begins.
const exploredApart = "Explored apart, because they have nothing in common: "

// add adds the report of other objects.
func (r *Report) add(other *Report) {
	r.addFound(other)
	if other.Cut != "" && r.Cut == "" {
		r.Cut, r.Complete = other.Cut, other.Complete
	}
	r.Holds = slices.DeleteFunc(r.Holds, func(p property.Property) bool { return !slices.Contains(other.Holds, p) })
	r.Unmade, r.Suggested = append(r.Unmade, other.Unmade...), append(r.Suggested, other.Suggested...)
	for _, note := range other.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
}

// addFound adds what another search has counted and found.
func (r *Report) addFound(other *Report) {
	r.States, r.Steps, r.Seconds = r.States+other.States, r.Steps+other.Steps, r.Seconds+other.Seconds
	r.Runs, r.Deliveries, r.Requests = r.Runs+other.Runs, r.Deliveries+other.Deliveries, r.Requests+other.Requests
	for _, v := range other.Violations {
		if !r.violates(v.Property) {
			r.Violations = append(r.Violations, v)
		}
	}
}

// addPass adds the report of a further search.
func (r *Report) addPass(name string, p *Report) {
	r.addFound(p)
	r.Holds = slices.DeleteFunc(r.Holds, r.violates)
	note := fmt.Sprintf("%s: %s", name, phrase.Count(p.States, "state"))
	if p.Cut != "" {
		note += "; not all was explored: " + p.Cut
		r.Cut = cmp.Or(r.Cut, p.Cut)
	}
	r.Notes = append(r.Notes, note+".")
}

// addHooks adds what is known of the hooks after all calls.
func (r *Report) addHooks(o *Options) {
	if o.Memo == nil {
		return
	}
	for _, h := range o.Memo.Stats() {
		r.HookCalls += h.Calls
		if average := h.Took / time.Duration(max(1, h.Calls)); average > slowCall {
			r.Notes = append(r.Notes, fmt.Sprintf("The hook %s takes %s for a call, so fewer states were explored.",
				h.Hook, average.Round(time.Millisecond)))
		}
		if h.ReadsVersions {
			r.Notes = append(r.Notes, fmt.Sprintf("The hook %s depends on resource versions, which count otherwise here than in a cluster.",
				h.Hook))
		}
		if h.Errors > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("The hook %s failed %d of %d calls.", h.Hook, h.Errors, h.Calls))
		}
	}
	if o.checksHooks() {
		r.addDifferences(o)
	}
}

// addDifferences puts the first hook that responds in two ways before all other violations. It has no steps: a call is
// enough to see it. What was explored of such a hook says nothing of it, nor that objects have nothing in common.
func (r *Report) addDifferences(o *Options) {
	all := o.Memo.Differences()
	if len(all) == 0 {
		return
	}
	d, ways := all[0], "in two ways"
	switch {
	case d.Later:
		ways += ": the response depends on earlier calls"
	case d.Restarted:
		ways += ": a process that has just started responds otherwise"
	}
	story := o.story(property.Deterministic, fmt.Sprintf("the hook %s responds to one request %s; they differ in %s",
		d.Hook, ways, strings.Join(d.Fields, ", ")))
	r.Violations, r.Holds = slices.Insert(r.Violations, 0, story), nil
	r.Notes = slices.DeleteFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, exploredApart) })
}

// UnmadeEdit is an edit of users that was tried, and never made.
type UnmadeEdit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Reason is why: the error of the API server, or that it changes nothing.
	Reason string `json:"reason"`
	// Failed is set if the exploration fails because of it.
	Failed bool `json:"failed"`
}

func (u UnmadeEdit) String() string {
	return fmt.Sprintf("The edit %q of %s was never made: %s", u.Name, u.Object, u.Reason)
}

// unmade returns the edits that were tried in vain. Those that come from a schema are guesses: they have a note, and only
// if the API server refuses them.
func (s *search) unmade() (written []UnmadeEdit, note string) {
	var guesses []string
	for i, one := range s.Attempts.All {
		e := &s.options.Edits[i]
		switch refused := one.Err != nil && !errors.Is(one.Err, world.ErrUnchanged); {
		case one.Made || one.Err == nil:
		case e.Generated && refused:
			guesses = append(guesses, fmt.Sprintf("%s (%v)", e.Name, one.Err))
		case e.Generated:
		default:
			written = append(written, UnmadeEdit{e.Name, e.Object, s.reasonOf(one.Err), refused && s.isFailure(one.Err)})
		}
	}
	if len(guesses) > 0 {
		note = "The API server refuses these generated edits: " + strings.Join(guesses, "; ") + "."
	}
	return written, note
}

// isFailure reports whether an exploration fails because the API server has refused an edit in all states. Its author
// wants to know what follows the edit, and without it the exploration holds too easily. If the search ended early, the edit
// may be possible in a later state, and a slow machine must not make a test fail. An unknown field is one in any state.
//
// An edit that changes nothing is no failure: one that takes back another needs a bound of two edits.
func (s *search) isFailure(err error) bool { return s.stopped == "" || world.UnknownFields(err) != "" }

func (s *search) reasonOf(err error) string {
	switch {
	case errors.Is(err, world.ErrUnchanged):
		return "it changes nothing in what was explored, with at most " + phrase.Count(s.options.Bounds.Edits, "edit")
	case world.UnknownFields(err) != "":
		return world.UnknownFields(err)
	case s.isFailure(err):
		return "the API server refuses it: " + err.Error()
	}
	return "the API server refused it in what was explored: " + err.Error()
}
