package dryrun

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Report is what the controllers would do. Its JSON form is what programs read.
type Report struct {
	Controllers []Controller `json:"controllers"`
	Summary     Summary      `json:"summary"`
}

// Controller is what one controller would do.
type Controller struct {
	// Name is such as "compositecontroller.setpoint.dev/teams".
	Name string `json:"name"`
	// Refused is why nothing of this is done before the controller is accepted.
	Refused *Refused `json:"refused,omitempty"`
	// Notes are what a user should know although all is well.
	Notes   []string `json:"notes,omitempty"`
	Objects []Object `json:"objects"`
	// Error is why nothing can be said about its objects.
	Error *Problem `json:"error,omitempty"`
}

// Refused is what the condition Accepted of a controller says when it is False, or
// would say.
type Refused struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// setController takes over what is known of the controller itself.
func (c *Controller) setController(r *manager.DryRun) {
	c.Notes = append(c.Notes, r.Notes...)
	if r.Suspended {
		c.Notes = append(c.Notes, suspended)
	}
	if r.Refused != nil {
		c.Refused = &Refused{r.Refused.Reason, r.Refused.Error()}
	}
}

// setError notes why nothing can be said, if there is an error.
func (c *Controller) setError(err error) {
	if err != nil {
		c.Error = newProblem(err)
	}
}

// Object is what would be done about one object.
type Object struct {
	Ref
	// Hook is the hook that was asked, "sync" or "finalize".
	Hook string `json:"hook,omitempty"`
	// Skipped says why the object would be left alone.
	Skipped string   `json:"skipped,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Calls are those of handlers that would be made now, in their order; Timers are
	// when the clock has others called, GivenUp those that failed for good with the
	// object as it is.
	Calls   []Call   `json:"calls,omitempty"`
	Timers  []Timer  `json:"timers,omitempty"`
	GivenUp []string `json:"givenUp,omitempty"`
	// RecordChanged says that the record of what its handlers have dealt with would be
	// written. It is not among the Fields.
	RecordChanged bool `json:"recordChanged,omitempty"`
	// Changes are those of other objects, in the order in which they would be
	// made.
	Changes []Change `json:"changes,omitempty"`
	// Fields are those of the object itself that would change.
	Fields []FieldChange `json:"fields,omitempty"`
	// held takes the place of Fields if deletions are held.
	held []FieldChange
	// Events would be told at the object, or at each of them that are the same.
	Events []Event `json:"events,omitempty"`
	// ResyncAfterSeconds is when the hook wants to be asked again; 0 for never.
	ResyncAfterSeconds float64  `json:"resyncAfterSeconds,omitempty"`
	Error              *Problem `json:"error,omitempty"`
}

// Ref names an object.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is "Pod default/web", or "Namespace web".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Change is one write.
type Change struct {
	// Action is create, update, recreate, delete, evict, adopt or release. What is
	// recreated is deleted first, and created when it is gone.
	Action string `json:"action"`
	Ref
	// Reason says why, such as "spec.image differs".
	Reason string `json:"reason,omitempty"`
	// Fields are what the write would change, as the API server has it; as it is
	// desired where the server is not asked. None for a deletion.
	Fields []FieldChange `json:"fields,omitempty"`
	// Unchecked says why the API server was not asked.
	Unchecked string `json:"unchecked,omitempty"`
	// Held says why it would not be made for now.
	Held string `json:"held,omitempty"`
	// Error is why it refuses.
	Error *Problem `json:"error,omitempty"`
	// removal says that the deletion guard counts it.
	removal bool
}

// FieldChange is a field whose value changes.
type FieldChange struct {
	object.FieldChange
	// Default means that the API server sets the value by default.
	Default bool `json:"default,omitempty"`
}

// Event would be told at an object.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Problem is what went wrong, and what to do next.
type Problem struct {
	Message string `json:"message"`
	// Path is the field of the hook's reply that is wrong, if that is it.
	Path string `json:"path,omitempty"`
	Hint string `json:"hint,omitempty"`
	// fault is what the hint is about.
	fault *model.Fault
}

// Summary counts.
type Summary struct {
	// Objects were looked at; Unchanged are those about which there is nothing to
	// do.
	Objects   int `json:"objects"`
	Unchanged int `json:"unchanged"`
	// Calls are those of handlers.
	Calls int `json:"calls"`
	// Create, Update, Recreate and Delete count other objects: adopting and
	// releasing is updating, evicting is deleting. Own counts those looked at that would be written
	// themselves: their status, labels, annotations, finalizers.
	Create     int `json:"create"`
	Update     int `json:"update"`
	Recreate   int `json:"recreate"`
	Delete     int `json:"delete"`
	SelfUpdate int `json:"selfUpdate"`
	// Held would not be made for now, and are not among the others.
	Held   int `json:"held"`
	Errors int `json:"errors"`
}

// Changes says whether there is anything to do.
func (s Summary) Changes() bool {
	return s.Calls+s.Create+s.Update+s.Recreate+s.Delete+s.SelfUpdate+s.Held > 0
}

// summarize counts.
func (r *Report) summarize() {
	for _, c := range r.Controllers {
		r.Summary.Errors += countIf(c.Error != nil)
		for _, o := range c.Objects {
			r.Summary.add(o)
		}
	}
}

func (s *Summary) add(o Object) {
	s.Objects++
	s.Errors += countIf(o.Error != nil)
	s.SelfUpdate += countIf(len(o.Fields) > 0 || o.RecordChanged)
	s.Unchanged += countIf(o.idle())
	s.addChanges(o.Changes)
	s.Calls += len(o.Calls)
	for _, c := range o.Calls {
		s.Errors += countIf(c.Error != nil)
		s.addChanges(c.Changes)
	}
}

func (s *Summary) addChanges(changes []Change) {
	for _, change := range changes {
		s.Errors += countIf(change.Error != nil)
		switch {
		case change.Held != "":
			s.Held++
		case change.Action == "create":
			s.Create++
		case change.Action == "recreate":
			s.Recreate++
		case change.Action == "delete", change.Action == "evict":
			s.Delete++
		default:
			s.Update++
		}
	}
}

// idle says that there is nothing to do.
func (o Object) idle() bool {
	return o.Error == nil && len(o.Calls)+len(o.Changes)+len(o.Fields) == 0 && !o.RecordChanged
}

func countIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setResponse notes what of a reply is no change, and returns the children it wants.
func (o *Object) setResponse(response *hook.Response) []*object.Object {
	if response == nil {
		return nil
	}
	o.ResyncAfterSeconds = response.ResyncAfter.Seconds()
	o.Events = eventsOf(response.Events)
	var desired []*object.Object
	for _, child := range response.Children {
		if parsed, err := object.Parse(child); err == nil { // The plan would have failed, too.
			desired = append(desired, parsed)
		}
	}
	return desired
}

func eventsOf(events []hook.Event) []Event {
	var all []Event
	for _, e := range events {
		all = append(all, Event{e.Type, e.Reason, e.Message})
	}
	return all
}

func fields(changes []object.FieldChange) []FieldChange {
	all := make([]FieldChange, len(changes))
	for i, c := range changes {
		all[i].FieldChange = c
	}
	return slices.Clip(all)
}
