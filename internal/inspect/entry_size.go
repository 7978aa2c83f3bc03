package inspect

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// What keeping things takes beside the JSON of objects, roughly.
const (
	runSize    = 700
	stepSize   = 250
	actionSize = 300
	entrySize  = 80
)

// frameOf is what an account keeps from being forgotten when it is stripped.
func frameOf(run *trace.Run) int {
	size := runSize + len(run.Causes.List())*entrySize + len(run.By) + len(run.UID) + sizeOfError(run.Err)
	for i := range run.Steps {
		size += stepSize + sizeOfFrame(&run.Steps[i])
	}
	return size
}

// sizeOfFrame is what is left of a step.
func sizeOfFrame(s *trace.Step) int {
	switch {
	case s.Ask != nil:
		size := sizeOfError(s.Ask.Err) + len(s.Ask.Revision.Name)
		if v := s.Ask.Answer.Review; v != nil && v.Denial != nil {
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

// sizeOfError is a guess where errors are made of others: all of them have their texts.
func sizeOfError(err error) int {
	if err == nil {
		return 0
	}
	return entrySize + len(err.Error())
}

// loadOf is what a run had in its hands, and what goes when it is stripped.
func loadOf(run *trace.Run) int {
	size := 0
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Ask != nil:
			size += sizeOfQuestion(&s.Ask.Question) + sizeOfAnswer(&s.Ask.Answer)
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

func sizeOfPlan(p *trace.Planned) int {
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
	for _, name := range t.Forget {
		size += entrySize + len(name)
	}
	return size
}

// sizeOfValue is that of JSON that was read.
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

// sizeOfQuestion leaves out the controller, which all questions have in common.
func sizeOfQuestion(q *trace.Question) int {
	switch {
	case q.Sync != nil:
		return len(q.Sync.Parent) + sizeOfGroups(q.Sync.Children) + sizeOfGroups(q.Sync.Related)
	case q.Customize != nil:
		return len(q.Customize.Parent)
	case q.Notice != nil:
		return len(q.Notice.Object) + len(q.Notice.Old) + sizeOfGroups(q.Notice.Owned) + sizeOfChanges(q.Notice.Changes)
	case q.Review != nil:
		return len(q.Review.Object) + len(q.Review.Old) + runSize
	}
	return 0
}

func sizeOfChanges(changes []hook.FieldChange) int {
	size := 0
	for i := range changes {
		size += entrySize + len(changes[i].Path) + len(changes[i].Old) + len(changes[i].New)
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

func sizeOfAnswer(a *trace.Answer) int {
	switch {
	case a.Sync != nil:
		return sizeOfResponse(a.Sync)
	case a.Customize != nil:
		return sizeOfRules(a.Customize.Related)
	case a.Notice != nil:
		return sizeOfNotice(a.Notice)
	case a.Review != nil:
		return sizeOfVerdict(a.Review)
	}
	return 0
}

// sizeOfResponse counts every part. Children and status are slices of all that was read,
// so that what was read as other parts stays with them, and counts twice.
func sizeOfResponse(r *hook.Response) int {
	size := len(r.Status)
	for _, child := range r.Children {
		size += len(child) + entrySize
	}
	return size + 2*(sizeOfMarks(r.Labels)+sizeOfMarks(r.Annotations)+sizeOfEvents(r.Events)+sizeOfConditions(r.Conditions)+len(r.Message))
}

func sizeOfNotice(a *hook.Answer) int {
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

func sizeOfVerdict(v *hook.Verdict) int {
	size := len(v.Object) + len(v.Patch) + len(v.JSONPatch)
	for _, warning := range v.Warnings {
		size += entrySize + len(warning)
	}
	for key, value := range v.Audit {
		size += entrySize + len(key) + len(value)
	}
	for i := range v.Events {
		size += entrySize + len(v.Events[i].Reason) + len(v.Events[i].Message)
	}
	return size
}

func sizeOfMarks(marks map[string]*string) int {
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

// selectorSize is that of a rule that selects by labels, roughly.
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
