package timeline

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Main is the request that says most about why a run was, and at which step it is: the
// first about the latest revision of the object that is not a customize request. Those
// after it see what the run itself did. It is nil for a run without one.
func Main(steps []inspect.Step) (ask *inspect.Ask, at int) {
	for i, step := range steps {
		if step.Ask != nil && step.Ask.What != "customize" && (step.Ask.Revision == nil || !step.Ask.Revision.Former) {
			return step.Ask, i
		}
	}
	return nil, 0
}

// Last is the last request of some steps with which another one is to be compared; nil
// for none.
func Last(steps []inspect.Step, as *inspect.Ask) *inspect.Ask {
	for _, step := range slices.Backward(steps) {
		if step.Ask != nil && step.Ask.What == as.What && revisionOf(as).Follows(revisionOf(step.Ask)) {
			return step.Ask
		}
	}
	return nil
}

func revisionOf(ask *inspect.Ask) inspect.Revision {
	if ask.Revision == nil {
		return inspect.Revision{}
	}
	return *ask.Revision
}

// Again says why the request at a step is one that the run made before: "" for one that it
// did not, what was written in between if anything was.
func Again(steps []inspect.Step, at int) string {
	ask := steps[at].Ask
	for i := at - 1; i >= 0; i-- {
		if earlier := steps[i].Ask; earlier != nil && Last(steps[i:i+1], ask) != nil {
			if slices.ContainsFunc(steps[i:at], func(s inspect.Step) bool { return s.Write != nil && Changed(s.Write) }) {
				return "again, after its writes"
			}
			return "again"
		}
	}
	return ""
}

// Revision labels the revision of the object that a request was about, such as "former
// revision 2"; "" where there is no choice: its controller keeps no revisions, or the run
// asked about the latest alone.
func Revision(steps []inspect.Step, ask *inspect.Ask) string {
	former := func(s inspect.Step) bool { return s.Ask != nil && s.Ask.Revision != nil && s.Ask.Revision.Former }
	switch {
	case ask.Revision == nil || !slices.ContainsFunc(steps, former):
		return ""
	case ask.Revision.Former:
		return "former revision " + strconv.FormatInt(ask.Revision.Number, 10)
	}
	return "latest revision " + strconv.FormatInt(ask.Revision.Number, 10)
}

// ReviewOf is what a run decided that is a review of admission; nil for any other.
func ReviewOf(run *inspect.Run) *inspect.Review {
	if len(run.Steps) == 1 && run.Steps[0].Ask != nil {
		return run.Steps[0].Ask.Review
	}
	return nil
}

// NeverStored says of an object that does not exist why: the latest run denied its
// creation. The runs are the latest first.
func NeverStored(runs []inspect.Run) bool {
	if len(runs) == 0 {
		return false
	}
	r := ReviewOf(&runs[0])
	return r != nil && r.Denied && !r.DryRun && r.Operation == "create"
}

// Decision says what a review came to, such as "Creation denied: no digest"; "" for a
// run that is none, or one without a verdict.
func Decision(run *inspect.Run) string {
	r := ReviewOf(run)
	if r == nil || run.Error != "" {
		return ""
	}
	what := map[string]string{"create": "Creation", "update": "Update", "delete": "Deletion", "connect": "Connection"}[r.Operation]
	if r.DryRun {
		what += " (dry run)"
	}
	switch {
	case r.Denied:
		return what + " denied"
	case run.Outcome == mutated:
		return what + " mutated and allowed"
	}
	return what + " allowed"
}

const mutated = "mutated"

// soon is how long after its creation an object is still new to its controller.
const soon = time.Minute

// Created says that a run is the first about its object, which had just been created.
func Created(run *inspect.Run) bool {
	ask, _ := Main(run.Steps)
	if ask == nil || ask.Previous != 0 || ask.Review != nil {
		return false
	}
	var about struct {
		Parent, Object struct{ Metadata metav1.ObjectMeta }
	}
	if json.Unmarshal(ask.Request, &about) != nil {
		return false // Its request is not kept, or masked.
	}
	for _, meta := range []*metav1.ObjectMeta{&about.Parent.Metadata, &about.Object.Metadata} {
		// The API server keeps whole seconds, of its own clock.
		if age := run.Began.Sub(meta.CreationTimestamp.Time); !meta.CreationTimestamp.IsZero() && age > -soon && age < soon {
			return true
		}
	}
	return false
}
