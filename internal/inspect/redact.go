package inspect

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Redacted replaces what the reader may not read. An object has it under the name hidden.
const Redacted = "you cannot get these"

// Redact removes what the reader may not read from a run. In requests and responses objects are reduced to their names;
// changes of their fields and errors of their writes are removed. If the object of the run itself may not be read,
// causes, errors, requests, responses and events are removed. The names of objects stay in the steps.
//
// may reports whether the reader may get objects of a kind in a namespace. The plural of
// the kind is empty if the run does not know it.
func Redact(run Run, may func(kind object.Kind, namespace string) bool) Run {
	r := redactor{may: may, plurals: pluralsOf(&run), namespace: run.Object.Namespace}
	own := r.may(run.Object.Kind, run.Object.Namespace)
	if !own && len(run.Causes) > 0 {
		run.Causes = []string{Redacted}
	}
	for i := range run.Steps {
		if w := run.Steps[i].Write; w != nil && w.Error != "" && (!own || !r.may(w.Object.Kind, w.Object.Namespace)) {
			r.hiddenErrors = append(r.hiddenErrors, w.Error)
		}
	}
	if run.Error != "" && (!own || len(r.hiddenErrors) > 0) {
		r.hiddenErrors = append(r.hiddenErrors, run.Error)
		run.Error, run.Fault = Redacted, nil
	}
	steps := make([]Step, len(run.Steps))
	for i, step := range run.Steps {
		steps[i] = r.redactStep(step, own)
	}
	run.Steps = steps
	return run
}

// WithoutRedacted removes the changes of objects that are reduced to their names.
func WithoutRedacted(changes []Change) []Change {
	hidden := lists.FlatMap(changes, func(c Change) []string {
		name, is := strings.CutSuffix(c.Path, "hidden")
		if is && cmp.Or(string(c.To), string(c.From)) == strconv.Quote(Redacted) {
			return []string{name}
		}
		return nil
	})
	return slices.DeleteFunc(changes, func(c Change) bool {
		return slices.ContainsFunc(hidden, func(name string) bool { return strings.HasPrefix(c.Path, name) })
	})
}

// CanReadAll reports whether the reader may get all objects in a run.
func CanReadAll(run Run, may func(kind object.Kind, namespace string) bool) bool {
	all := true
	Redact(run, func(kind object.Kind, namespace string) bool {
		can := may(kind, namespace)
		all = all && can
		return can
	})
	return all
}

type redactor struct {
	may     func(object.Kind, string) bool
	plurals map[object.GroupKind]object.Kind
	// namespace is the namespace of the run's object.
	namespace string
	// hiddenErrors are errors that other texts must not repeat.
	hiddenErrors []string
	// hidden reports that an object was hidden.
	hidden bool
}

// hiddenErrorPrefix is the length that identifies an error whose end may be cut off.
const hiddenErrorPrefix = 40

func (r *redactor) repeatsHiddenError(text string) bool {
	return slices.ContainsFunc(r.hiddenErrors, func(refusal string) bool {
		return strings.Contains(text, refusal[:min(len(refusal), hiddenErrorPrefix)])
	})
}

// pluralsOf returns the kinds in a run that have a plural.
func pluralsOf(run *Run) map[object.GroupKind]object.Kind {
	known := map[object.GroupKind]object.Kind{}
	note := func(ref *object.Ref) { known[ref.GroupKind()] = ref.Kind }
	note(&run.Object)
	for i := range run.Steps {
		if w := run.Steps[i].Write; w != nil {
			note(&w.Object)
		}
		if p := run.Steps[i].Plan; p != nil {
			for j := range p.Actions {
				note(&p.Actions[j].Object)
			}
		}
	}
	return known
}

// redactStep redacts a step. own reports whether the object of the run may be read.
func (r *redactor) redactStep(step Step, own bool) Step {
	switch {
	case step.Call != nil:
		call := *step.Call
		call.Request, call.Response = r.redactJSON(call.Request, own), r.redactJSON(call.Response, own)
		if len(call.Output) > 0 && (!own || r.hidden) {
			call.Output, call.OutputMore = []string{Redacted}, 0
		}
		if !own && call.Error != "" {
			call.Error, call.Fault = Redacted, nil
		}
		if call.Review != nil && !own {
			call.Review = &Review{Operation: call.Review.Operation, Subresource: call.Review.Subresource, DryRun: call.Review.DryRun,
				Denied: call.Review.Denied}
		}
		if call.Code != nil && call.Code.Source != "" && !r.may(call.Code.Holder.Kind, call.Code.Holder.Namespace) {
			call.Code = &Code{Digest: call.Code.Digest, Since: call.Code.Since}
		}
		step.Call = &call
	case step.Plan != nil:
		step.Plan = r.redactPlan(step.Plan)
	case step.Write != nil:
		step.Write = r.redactWrite(*step.Write, own)
	case step.Event != nil && (!own || r.repeatsHiddenError(step.Event.Message)):
		event := *step.Event
		event.Message = Redacted
		step.Event = &event
	}
	return step
}

func (r *redactor) redactWrite(write Write, own bool) *Write {
	readable := r.may(write.Object.Kind, write.Object.Namespace)
	if !readable {
		write.Changes = nil
	}
	if write.Error != "" && (!own || !readable) {
		write.Error, write.Fault = Redacted, nil
	}
	return &write
}

func (r *redactor) redactPlan(p *record.Planned) *record.Planned {
	planned := record.Planned{Unchanged: p.Unchanged}
	for _, action := range p.Actions {
		if !r.may(action.Object.Kind, action.Object.Namespace) {
			action.Reason, action.Changes = Redacted, nil
		}
		planned.Actions = append(planned.Actions, action)
	}
	return &planned
}

// redactJSON redacts a request or response. Invalid JSON is masked.
func (r *redactor) redactJSON(text json.RawMessage, own bool) json.RawMessage {
	switch {
	case text == nil:
		return nil
	case !own:
		return marshal(map[string]any{"hidden": Redacted})
	}
	fields, err := object.DecodeExact(text)
	if err != nil {
		return json.RawMessage(strconv.Quote(redact.Mask))
	}
	return marshal(r.redactValue(fields))
}

// redactValue replaces the objects in a value that may not be read, outer ones first.
func (r *redactor) redactValue(value any) any {
	switch inner := value.(type) {
	case map[string]any:
		if names := r.reduceToNames(inner); names != nil {
			return names
		}
		for name, each := range inner {
			inner[name] = r.redactValue(each)
		}
	case []any:
		for i, each := range inner {
			inner[i] = r.redactValue(each)
		}
	}
	return value
}

// reduceToNames returns the names of an object that may not be read; nil for other values.
func (r *redactor) reduceToNames(members map[string]any) map[string]any {
	apiVersion, _ := members["apiVersion"].(string)
	kind, _ := members["kind"].(string)
	metadata, has := members["metadata"].(map[string]any)
	if apiVersion == "" || kind == "" || !has {
		return nil
	}
	called, namespace := r.kindOf(apiVersion, kind), ""
	if said, is := metadata["namespace"].(string); is {
		namespace = said
	} else if called.Namespaced {
		// Responses may omit the namespace.
		namespace = r.namespace
	}
	if r.may(called, namespace) {
		return nil
	}
	r.hidden = true
	names := map[string]any{}
	for _, name := range [...]string{"name", "namespace"} {
		if metadata[name] != nil {
			names[name] = metadata[name]
		}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": names, "hidden": Redacted}
}

func (r *redactor) kindOf(apiVersion, kind string) object.Kind {
	of := object.NewKind(apiVersion, kind)
	if known, is := r.plurals[of.GroupKind()]; is {
		return known
	}
	return of
}

// marshal returns JSON; nil for a value that cannot be encoded.
func marshal(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return text
}

// RedactState removes errors that may quote objects of kinds the reader may not read. The
// reader may read the object itself. Children are not redacted.
//
// may reports whether the reader may get objects of a kind in a namespace.
func RedactState(objectState ObjectState, may func(kind object.Kind, namespace string) bool) ObjectState {
	hidden := hiddenKinds(objectState.Mentions, objectState.Ref, may)
	if hidden == "" {
		return objectState
	}
	objectState.Fault = nil
	for _, text := range [...]*string{&objectState.Error, &objectState.Conflict} {
		if *text != "" {
			*text = hiddenMessage + ": " + hidden
		}
	}
	if objectState.Shadow != nil {
		objectState.Shadow = []string{hiddenMessage + ": " + hidden}
	}
	return objectState
}

// hiddenKinds returns the kinds at locations that may not be read, as a list; "" if all may.
func hiddenKinds(places []Location, own object.Ref, may func(object.Kind, string) bool) string {
	var hidden []string
	for _, p := range places {
		itself := p.Group == own.Group && p.Kind.Kind == own.Kind.Kind && p.Namespace == own.Namespace
		if !itself && !slices.Contains(hidden, p.Kind.Kind) && !may(p.Kind, p.Namespace) {
			hidden = append(hidden, p.Kind.Kind)
		}
	}
	return strings.Join(hidden, ", ")
}

// AccessCheck reports whether the reader has a permission: a verb on a kind, in a namespace
// or in all if it is "", or on one object.
type AccessCheck func(verb string, kind object.Kind, namespace, name string) bool

// CanView reports whether the reader may see a controller: if they may get the object that declares it, or list one of
// its kinds. A controller of a Go program without known kinds is visible.
func CanView(c *Controller, may AccessCheck) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	return c.Declared == nil && len(c.Kinds) == 0 ||
		slices.ContainsFunc(c.Kinds, func(k object.Kind) bool { return may("list", k, "", "") })
}

// RedactController hides the failures and conditions of a controller, unless the reader may
// get the object that declares it, whose status has them too, or list all kinds that it
// manages and writes. If those are unknown, because it does not run, that is every kind.
func RedactController(c Controller, may AccessCheck) Controller {
	if canReadErrors(&c, may) {
		return c
	}
	if c.Last != nil {
		c.Last = &Failure{Message: hiddenMessage, Time: c.Last.Time}
	}
	c.Conditions = slices.Clone(c.Conditions)
	for i := range c.Conditions {
		if c.Conditions[i].Message != "" {
			c.Conditions[i].Message = hiddenMessage
		}
	}
	if c.Rollout != nil {
		c.Rollout = c.Rollout.DeepCopy()
		c.Rollout.Message, c.Rollout.Blocked = hiddenMessage, ""
		if shadow := c.Rollout.Shadow; shadow != nil {
			shadow.Failure, shadow.Examples = "", nil
		}
	}
	if len(c.Notes) > 0 {
		c.Notes = []string{hiddenMessage}
	}
	return c
}

const hiddenMessage = "hidden, because it may quote objects that you cannot get"

func canReadErrors(c *Controller, may AccessCheck) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	all := slices.Concat(c.Kinds, c.Children)
	if len(c.Kinds) == 0 {
		all = []object.Kind{{Group: "*", Plural: "*"}}
	}
	return !slices.ContainsFunc(all, func(k object.Kind) bool { return !may("list", k, "", "") })
}

// Readable returns the kinds that may be read in a namespace, for Query.ReadableKinds.
func Readable(kinds []object.Kind, namespace string, may func(kind object.Kind, namespace string) bool) []object.Kind {
	return lists.Filter(kinds, func(k object.Kind) bool { return may(k, k.Within(namespace)) })
}
