package timeline

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// MainCall is the request that says most about why a run was, and at which step it is: the
// first about the latest revision of the object that is not a customize request. Those
// after it see what the run itself did. It is nil for a run without one.
func MainCall(steps []model.Step) (ask *model.Call, at int) {
	for i, step := range steps {
		if step.Call != nil && step.Call.Name != "customize" && (step.Call.Revision == nil || !step.Call.Revision.Previous) {
			return step.Call, i
		}
	}
	return nil, 0
}

// LastComparable is the last request of some steps with which another one is to be compared; nil
// for none.
func LastComparable(steps []model.Step, as *model.Call) *model.Call {
	for _, step := range slices.Backward(steps) {
		if step.Call != nil && step.Call.Name == as.Name && revisionOf(as).ComparableTo(revisionOf(step.Call)) {
			return step.Call
		}
	}
	return nil
}

func revisionOf(ask *model.Call) model.Revision {
	if ask.Revision == nil {
		return model.Revision{}
	}
	return *ask.Revision
}

// RepeatLabel says why the request at a step is one that the run made before: "" for one that it
// did not, what was written in between if anything was.
func RepeatLabel(steps []model.Step, at int) string {
	ask := steps[at].Call
	for i := at - 1; i >= 0; i-- {
		if earlier := steps[i].Call; earlier != nil && LastComparable(steps[i:i+1], ask) != nil {
			if slices.ContainsFunc(steps[i:at], func(s model.Step) bool { return s.Write != nil && Changed(s.Write) }) {
				return "again, after its writes"
			}
			return "again"
		}
	}
	return ""
}

// RevisionLabel labels the revision of the object that a request was about, such as "former
// revision 2"; "" where there is no choice: its controller keeps no revisions, or the run
// asked about the latest alone.
func RevisionLabel(steps []model.Step, ask *model.Call) string {
	former := func(s model.Step) bool { return s.Call != nil && s.Call.Revision != nil && s.Call.Revision.Previous }
	switch {
	case ask.Revision == nil || !slices.ContainsFunc(steps, former):
		return ""
	case ask.Revision.Previous:
		return "former revision " + strconv.FormatInt(ask.Revision.Number, 10)
	}
	return "latest revision " + strconv.FormatInt(ask.Revision.Number, 10)
}

// ReviewOf is what a run decided that is a review of admission; nil for any other.
func ReviewOf(run *model.Run) *model.Review {
	if len(run.Steps) == 1 && run.Steps[0].Call != nil {
		return run.Steps[0].Call.Review
	}
	return nil
}

// NeverStored says of an object that does not exist why: the latest run denied its
// creation. The runs are the latest first.
func NeverStored(runs []model.Run) bool {
	if len(runs) == 0 {
		return false
	}
	r := ReviewOf(&runs[0])
	return r != nil && r.Denied && !r.DryRun && r.Operation == "create"
}

// Decision says what a review came to, such as "Creation denied: no digest"; "" for a
// run that is none, or one without a verdict.
func Decision(run *model.Run) string {
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

// newObjectAge is how long after its creation an object is still new to its controller.
const newObjectAge = time.Minute

// IsCreation says that a run is the first about its object, which had just been created.
func IsCreation(run *model.Run) bool {
	ask, _ := MainCall(run.Steps)
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
		if age := run.Began.Sub(meta.CreationTimestamp.Time); !meta.CreationTimestamp.IsZero() && age > -newObjectAge && age < newObjectAge {
			return true
		}
	}
	return false
}
