package model

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Rough memory overheads beside the JSON of objects.
const (
	runSize    = 700
	stepSize   = 250
	actionSize = 300
	entrySize  = 80
)

// baseSizeOf returns the memory of a stripped record.
func baseSizeOf(run *record.Run) int {
	size := runSize + len(run.Causes.List())*entrySize + len(run.Trigger) + len(run.UID) + sizeOfError(run.Err)
	for i := range run.Steps {
		size += stepSize + sizeOfStepBase(&run.Steps[i])
	}
	return size
}

// sizeOfStepBase returns the memory of a stripped step.
func sizeOfStepBase(s *record.Step) int {
	switch {
	case s.Call != nil:
		size := sizeOfError(s.Call.Err) + len(s.Call.Revision.Name)
		if v := s.Call.Response.Review; v != nil && v.Denial != nil {
			size += entrySize + len(v.Denial.Message) + len(v.Denial.Reason)
		}
		return size
	case s.Plan != nil:
		size := 0
		for _, stage := range s.Plan.Stages {
			size += len(stage) * actionSize
		}
		return size
	case s.Write != nil:
		return sizeOfError(s.Write.Err)
	case s.Event != nil:
		return len(s.Event.Reason) + len(s.Event.Message)
	}
	return 0
}

// sizeOfError estimates the memory of an error: wrapped errors keep their texts too.
func sizeOfError(err error) int {
	if err == nil {
		return 0
	}
	return entrySize + len(err.Error())
}

// bodySizeOf returns the memory freed by strip.
func bodySizeOf(run *record.Run) int {
	size := 0
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Call != nil:
			size += sizeOfRequest(&s.Call.Request) + sizeOfCallResponse(&s.Call.Response)
		case s.Plan != nil:
			size += sizeOfPlan(s.Plan)
		case s.Write != nil:
			size += sizeOfObject(s.Write.Before) + sizeOfObject(s.Write.After)
		}
	}
	return size
}

func sizeOfObject(o *object.Object) int {
	if o == nil {
		return 0
	}
	return o.Size() + entrySize
}

func sizeOfPlan(p *record.Planned) int {
	size := 0
	for _, stage := range p.Stages {
		for i := range stage {
			size += sizeOfObject(stage[i].Before) + sizeOfObject(stage[i].After) + sizeOfTakeOver(stage[i].TakeOver)
		}
	}
	return size
}

func sizeOfTakeOver(t *plan.TakeOver) int {
	if t == nil {
		return 0
	}
	size := entrySize + sizeOfValue(t.Applied)
	for i := range t.From {
		size += entrySize + len(t.From[i].Name)
	}
	for _, name := range t.RemoveAnnotations {
		size += entrySize + len(name)
	}
	return size
}

// sizeOfValue returns the memory of decoded JSON.
func sizeOfValue(value any) int {
	size := entrySize
	switch v := value.(type) {
	case string:
		size += len(v)
	case map[string]any:
		for name, each := range v {
			size += len(name) + sizeOfValue(each)
		}
	case []any:
		for _, each := range v {
			size += sizeOfValue(each)
		}
	}
	return size
}

// sizeOfRequest ignores the controller, which all requests share.
func sizeOfRequest(q *record.Request) int {
	switch {
	case q.Sync != nil:
		return len(q.Sync.Parent) + sizeOfGroups(q.Sync.Children) + sizeOfGroups(q.Sync.Related)
	case q.Customize != nil:
		return len(q.Customize.Parent)
	case q.Handler != nil:
		return len(q.Handler.Object) + len(q.Handler.PreviousState) + sizeOfGroups(q.Handler.Owned) + sizeOfChanges(q.Handler.Changes)
	case q.Review != nil:
		return len(q.Review.Object) + len(q.Review.OldObject) + runSize
	}
	return 0
}

func sizeOfChanges(changes []hook.FieldChange) int {
	size := 0
	for i := range changes {
		size += entrySize + len(changes[i].Path) + len(changes[i].From) + len(changes[i].To)
	}
	return size
}

func sizeOfGroups(groups []hook.Group) int {
	size := 0
	for i := range groups {
		for j := range groups[i].Objects {
			size += entrySize + len(groups[i].Objects[j].Object)
		}
	}
	return size
}

func sizeOfCallResponse(a *record.Response) int {
	switch {
	case a.Sync != nil:
		return sizeOfSyncResponse(a.Sync)
	case a.Customize != nil:
		return sizeOfRules(a.Customize.Related)
	case a.Handler != nil:
		return sizeOfHandlerResponse(a.Handler)
	case a.Review != nil:
		return sizeOfReviewResponse(a.Review)
	}
	return 0
}

// sizeOfSyncResponse counts all parts. Children and status reference the whole response, so
// it is counted twice.
func sizeOfSyncResponse(r *hook.Response) int {
	size := len(r.Status)
	for _, child := range r.Children {
		size += len(child) + entrySize
	}
	return size + 2*(sizeOfMetadata(r.Labels)+sizeOfMetadata(r.Annotations)+sizeOfEvents(r.Events)+sizeOfConditions(r.Conditions)+len(r.Message))
}

func sizeOfHandlerResponse(a *hook.HandlerResponse) int {
	size := len(a.Patch) + len(a.Status) + 2*(sizeOfEvents(a.Events)+sizeOfConditions(a.Conditions)+len(a.Message))
	for i := range a.Apply {
		size += len(a.Apply[i].Object) + entrySize
	}
	for i := range a.Delete {
		d := &a.Delete[i]
		size += entrySize + len(d.APIVersion) + len(d.Kind) + len(d.Namespace) + len(d.Name) + len(d.Selector)
	}
	return size
}

func sizeOfReviewResponse(v *hook.ReviewResponse) int {
	size := len(v.Object) + len(v.Patch) + len(v.JSONPatch)
	for _, warning := range v.Warnings {
		size += entrySize + len(warning)
	}
	for key, value := range v.AuditAnnotations {
		size += entrySize + len(key) + len(value)
	}
	for i := range v.Events {
		size += entrySize + len(v.Events[i].Reason) + len(v.Events[i].Message)
	}
	return size
}

func sizeOfMetadata(marks map[string]*string) int {
	size := 0
	for key, value := range marks {
		size += entrySize + len(key)
		if value != nil {
			size += len(*value)
		}
	}
	return size
}

func sizeOfConditions(conditions []hook.Condition) int {
	size := 0
	for i := range conditions {
		c := &conditions[i]
		size += entrySize + len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
	}
	return size
}

func sizeOfEvents(events []hook.Event) int {
	size := 0
	for i := range events {
		size += entrySize + len(events[i].Reason) + len(events[i].Message)
	}
	return size
}

// selectorSize estimates a rule with a label selector.
const selectorSize = 300

func sizeOfRules(rules []hook.RelatedRule) int {
	size := 0
	for i := range rules {
		size += 2*entrySize + selectorSize
		for _, name := range rules[i].Names {
			size += entrySize/2 + len(name)
		}
	}
	return size
}
