package dryrun

import (
	"cmp"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Report is what the controllers would do.
type Report struct {
	Controllers []Controller `json:"controllers"`
	Summary     Summary      `json:"summary"`
}

// Controller is what one controller would do.
type Controller struct {
	// Name is such as "compositecontroller.setpoint.dev/teams".
	Name string `json:"name"`
	// Refused is why the controller is not accepted, so that nothing happens.
	Refused *Refused `json:"refused,omitempty"`
	// Notes are warnings.
	Notes   []string `json:"notes,omitempty"`
	Objects []Object `json:"objects"`
	// Error is why its objects could not be run.
	Error *Problem `json:"error,omitempty"`
}

// Refused has the reason and message of the condition Accepted.
type Refused struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Object is what would be done to one object.
type Object struct {
	Ref
	// Hook is the hook that was called, "sync" or "finalize".
	Hook string `json:"hook,omitempty"`
	// Skipped says why the object would not be reconciled.
	Skipped string   `json:"skipped,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Calls are the calls of handlers, in order. Timers are scheduled calls, and GivenUp the
	// handlers that failed permanently for this version of the object.
	Calls   []Call   `json:"calls,omitempty"`
	Timers  []Timer  `json:"timers,omitempty"`
	GivenUp []string `json:"givenUp,omitempty"`
	// RecordChanged means that the state of its handlers would be stored. It is not in Fields.
	RecordChanged bool `json:"recordChanged,omitempty"`
	// Changes are changes of other objects, in order.
	Changes []Change `json:"changes,omitempty"`
	// Fields are changes of the object itself.
	Fields []FieldChange `json:"fields,omitempty"`
	// held replaces Fields if deletions are held.
	held   []FieldChange
	Events []hook.Event `json:"events,omitempty"`
	// ResyncAfterSeconds is the delay of the next call that the hook chose; 0 for none.
	ResyncAfterSeconds float64  `json:"resyncAfterSeconds,omitempty"`
	Error              *Problem `json:"error,omitempty"`
}

// Call is one call of a handler and its result.
type Call struct {
	Handler string `json:"handler"`
	// Reason is why the handler is called, such as "Update".
	Reason string `json:"reason"`
	// Since is when the call became due, if the object says so.
	Since *time.Time `json:"since,omitempty"`
	// DebounceSeconds is how long the object must be unchanged before the call.
	DebounceSeconds float64 `json:"debounceSeconds,omitempty"`
	// Attempt is the number of failed calls so far.
	Attempt int `json:"attempt,omitempty"`
	// ChangedFields are the changed fields in the request, if known.
	ChangedFields []FieldChange `json:"changedFields,omitempty"`
	// Called means that the handler was called: the rest is its response.
	Called bool `json:"called"`
	// Changes are changes of other objects, in order. Unchanged are applied objects that would not
	// change.
	Changes   []Change     `json:"changes,omitempty"`
	Unchanged []Ref        `json:"unchanged,omitempty"`
	Events    []hook.Event `json:"events,omitempty"`
	// RetryAfterSeconds is the delay of the next retry that the handler chose.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitempty"`
	// NotApplicable means that the handler does not handle the object as it is.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Error is why nothing would be written, except what the handler returned beside it. GaveUp means
	// that there is no retry until the object changes.
	Error  *Problem `json:"error,omitempty"`
	GaveUp bool     `json:"gaveUp,omitempty"`
}

// Timer is a scheduled call of a handler.
type Timer struct {
	Handler string    `json:"handler"`
	At      time.Time `json:"at"`
	// IdleSeconds is how long the object must be unchanged before the call.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
}

// Ref is an object.Ref as reports write it.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

func refOf(r object.Ref) Ref {
	return Ref{APIVersion: r.APIVersion(), Kind: r.Kind.Kind, Namespace: r.Namespace, Name: r.Name}
}

func (r Ref) ref() object.Ref {
	kind := object.NewKind(r.APIVersion, r.Kind)
	kind.Namespaced = r.Namespace != ""
	return object.Ref{Kind: kind, Namespace: r.Namespace, Name: r.Name}
}

// String returns "Pod default/web" or "Namespace web".
func (r Ref) String() string { return r.ref().String() }

// Change is one write.
type Change struct {
	// Action is create, update, recreate, delete, evict, adopt or release. An object is recreated
	// by deleting it first.
	Action string `json:"action"`
	Ref
	// Reason says why, such as "spec.image differs".
	Reason string `json:"reason,omitempty"`
	// Fields are the changed fields in a dry run, or as planned without one; none for deletions.
	Fields []FieldChange `json:"fields,omitempty"`
	// Unchecked says why there was no dry run.
	Unchecked string `json:"unchecked,omitempty"`
	// Held says why the write would wait.
	Held string `json:"held,omitempty"`
	// Error is why the API server rejects it.
	Error *Problem `json:"error,omitempty"`
	// removal means that it counts for the deletion guard.
	removal bool
}

// FieldChange is a field whose value changes.
type FieldChange struct {
	object.FieldChange
	// Default means that the API server sets the value by default.
	Default bool `json:"default,omitempty"`
}

// Problem is an error and what to do about it.
type Problem struct {
	Message string `json:"message"`
	// Path is the invalid field of the hook response, if any.
	Path string `json:"path,omitempty"`
	Hint string `json:"hint,omitempty"`
	// fault selects the hint.
	fault *inspect.Fault
}

// Summary counts objects and changes.
type Summary struct {
	// Objects is the number of objects. Unchanged are those without changes.
	Objects   int `json:"objects"`
	Unchanged int `json:"unchanged"`
	Calls     int `json:"calls"`
	// Create, Update, Recreate and Delete count changes of other objects. Adopt and release count
	// as updates, evictions as deletions. SelfUpdate counts objects whose own status, labels,
	// annotations or finalizers would change.
	Create     int `json:"create"`
	Update     int `json:"update"`
	Recreate   int `json:"recreate"`
	Delete     int `json:"delete"`
	SelfUpdate int `json:"selfUpdate"`
	// Held counts changes that would wait. They are not in the other counts.
	Held   int `json:"held"`
	Errors int `json:"errors"`
}

// Changes reports whether there is anything to do.
func (s Summary) Changes() bool {
	return s.Calls+s.Create+s.Update+s.Recreate+s.Delete+s.SelfUpdate+s.Held > 0
}

func (r *Report) summarize() {
	r.eachProblem(func(*Problem) { r.Summary.Errors++ })
	for _, c := range r.Controllers {
		for i := range c.Objects {
			r.Summary.add(&c.Objects[i])
		}
	}
}

func (s *Summary) add(o *Object) {
	s.Objects++
	s.Calls += len(o.Calls)
	if len(o.Fields) > 0 || o.RecordChanged {
		s.SelfUpdate++
	}
	if o.idle() {
		s.Unchanged++
	}
	counts := map[string]*int{"create": &s.Create, "recreate": &s.Recreate, "delete": &s.Delete, "evict": &s.Delete}
	o.eachChange(func(c *Change) {
		of := cmp.Or(counts[c.Action], &s.Update)
		if c.Held != "" {
			of = &s.Held
		}
		*of++
	})
}

func (o Object) idle() bool {
	return o.Error == nil && len(o.Calls)+len(o.Changes)+len(o.Fields) == 0 && !o.RecordChanged
}

// setResponse copies the events and the resync delay of a response and returns its children.
func (o *Object) setResponse(response *hook.Response) []*object.Object {
	if response == nil {
		return nil
	}
	o.ResyncAfterSeconds = response.ResyncAfter.Seconds()
	o.Events = response.Events
	var desired []*object.Object
	for _, child := range response.Children {
		if parsed, err := object.Parse(child); err == nil { // The plan failed for the same reason.
			desired = append(desired, parsed)
		}
	}
	return desired
}

func fields(changes []object.FieldChange) []FieldChange {
	return lists.Map(changes, func(c object.FieldChange) FieldChange { return FieldChange{FieldChange: c} })
}

// newProblem returns the problem of an error. hint adds what to do.
func newProblem(err error) *Problem {
	p := &Problem{Message: err.Error(), fault: record.FaultOf(err)}
	if response, ok := errors.AsType[*hook.MalformedError](err); ok {
		p.Path = response.Path
	}
	if _, ok := errors.AsType[*compile.Refusal](err); ok {
		p.Hint = "the controller is not accepted, so it does nothing"
	}
	return p
}

// cliHint returns a hint for the command line, which runs on the user's machine; running returns
// one for a process.
func cliHint(a inspect.Advice) string { return cmp.Or(a.LocalHelp, a.Help) }

func processHint(a inspect.Advice) string { return a.Help }

// hint adds a hint to each problem of the report.
func (r *Report) hint(words func(inspect.Advice) string) {
	r.eachProblem(func(p *Problem) { p.Hint = cmp.Or(p.Hint, words(inspect.AdviceFor(p.fault))) })
}

func (r *Report) eachProblem(visit func(*Problem)) {
	see := func(p *Problem) {
		if p != nil {
			visit(p)
		}
	}
	for _, c := range r.Controllers {
		see(c.Error)
		for i := range c.Objects {
			o := &c.Objects[i]
			see(o.Error)
			for _, call := range o.Calls {
				see(call.Error)
			}
			o.eachChange(func(c *Change) { see(c.Error) })
		}
	}
}

// eachChange visits the changes of other objects, by the object's hook and by its handlers.
func (o *Object) eachChange(visit func(*Change)) {
	all := [][]Change{o.Changes}
	for _, call := range o.Calls {
		all = append(all, call.Changes)
	}
	for _, changes := range all {
		for i := range changes {
			visit(&changes[i])
		}
	}
}
