package timeline

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// MainCall returns the call that explains a run, and its step: the first call for the latest revision that is not
// customize. Later calls see what the run itself did. It is nil if there is none.
func MainCall(steps []inspect.Step) (hookCall *inspect.Call, at int) {
	for i, step := range steps {
		if step.Call != nil && step.Call.Name != "customize" && (step.Call.Revision == nil || !step.Call.Revision.Previous) {
			return step.Call, i
		}
	}
	return nil, 0
}

// RepeatLabel says why a run repeats a call: "again", or "again, after its writes"; "" for the first call.
func RepeatLabel(steps []inspect.Step, at int) string {
	hookCall := steps[at].Call
	for i := at - 1; i >= 0; i-- {
		if earlier := steps[i].Call; earlier != nil && inspect.LastComparable(steps[i:i+1], hookCall) != nil {
			if slices.ContainsFunc(steps[i:at], func(s inspect.Step) bool { return s.Write != nil && Changed(s.Write) }) {
				return "again, after its writes"
			}
			return "again"
		}
	}
	return ""
}

// RevisionLabel names the revision in a request, such as "former revision 2"; "" if the run
// uses the latest revision only.
func RevisionLabel(steps []inspect.Step, hookCall *inspect.Call) string {
	previous := func(s inspect.Step) bool { return s.Call != nil && s.Call.Revision != nil && s.Call.Revision.Previous }
	switch {
	case hookCall.Revision == nil || !slices.ContainsFunc(steps, previous):
		return ""
	case hookCall.Revision.Previous:
		return "former revision " + strconv.FormatInt(hookCall.Revision.Number, 10)
	}
	return "latest revision " + strconv.FormatInt(hookCall.Revision.Number, 10)
}

// NeverStored reports whether the creation of an object was denied, although another webhook may have allowed the same
// request since. The runs are newest first.
func NeverStored(runs []inspect.Run) bool {
	stored := slices.IndexFunc(runs, func(run inspect.Run) bool {
		r := run.Review()
		return r == nil || r.Operation != "create"
	})
	if stored >= 0 {
		runs = runs[:stored]
	}
	return inspect.LastDenial(runs) != nil
}

// Decision returns the decision of a review, such as "Creation denied"; "" for other runs and failed reviews.
func Decision(run *inspect.Run) string {
	r := run.Review()
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
	case run.Outcome == inspect.ReviewMutated:
		return what + " mutated and allowed"
	}
	return what + " allowed"
}

// newObjectAge is the age up to which an object counts as just created.
const newObjectAge = time.Minute

// IsCreation reports whether a run is the first one for a new object.
func IsCreation(run *inspect.Run) bool {
	hookCall, _ := MainCall(run.Steps)
	if hookCall == nil || hookCall.Previous != 0 || hookCall.Review != nil || hookCall.Reason == string(hook.ReasonUpdate) {
		return false
	}
	var about struct {
		Parent, Object struct{ Metadata metav1.ObjectMeta }
	}
	if json.Unmarshal(hookCall.Request, &about) != nil {
		return false // The request is not kept, or masked.
	}
	for _, meta := range []*metav1.ObjectMeta{&about.Parent.Metadata, &about.Object.Metadata} {
		// Creation timestamps are whole seconds of the API server's clock.
		if age := run.Began.Sub(meta.CreationTimestamp.Time); !meta.CreationTimestamp.IsZero() && age > -newObjectAge &&
			age < newObjectAge {
			return true
		}
	}
	return false
}

// PastTense returns the past tense of a write's verb.
func PastTense(verb string) string {
	if stem, is := strings.CutSuffix(verb, "y"); is {
		return stem + "ied"
	}
	return strings.TrimSuffix(verb, "e") + "ed"
}
