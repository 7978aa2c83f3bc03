package timeline

import (
	"encoding/json"
	"time"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Incident is a series of failed runs of one controller for an object, up to now.
type Incident struct {
	// FirstFailure is the first failed run, LastGood the successful run before it; nil if they
	// are no longer in the history.
	FirstFailure, LastGood *inspect.Run
	// Failures counts the failed runs in the history.
	Failures int
}

// Extend lets a state count from the first failure. A process that starts the controller again, such as with other code,
// counts from there.
func (i Incident) Extend(state *inspect.ObjectState) {
	if i.FirstFailure != nil && i.FirstFailure.Began.Before(state.FailingSince) {
		state.FailingSince, state.Attempts = i.FirstFailure.Began, max(state.Attempts, i.Failures)
	}
}

// IncidentOf returns the incident of an object that fails under a controller. The runs are newest
// first. Runs of an earlier object with the same name do not count.
func IncidentOf(runs []inspect.Run, state *inspect.ObjectState) (found Incident) {
	for i := range runs {
		run := &runs[i]
		another := state.UID != "" && run.Object.UID != "" && run.Object.UID != state.UID
		if run.Process != state.Process || run.Controller != state.Controller || run.Review() != nil || another {
			continue
		}
		switch run.Outcome {
		case record.Failed:
			found.FirstFailure = run
			found.Failures++
		case record.Synced:
			found.LastGood = run
			return found
		}
	}
	// Without a run before it, only the number of its attempt tells whether it was the first.
	if found.FirstFailure != nil && found.FirstFailure.Attempt > 0 {
		found.FirstFailure = nil
	}
	return found
}

// CodeChange is how the code of a call differs from that of an earlier one.
type CodeChange struct {
	// Hook is the hook, and Since since when it has other code; zero if the code is the same, or not known.
	Hook  string
	Since time.Time
	// Diff has the lines that differ; none if the texts are not known.
	Diff diff.Text
	// Unseen reports that Setpoint cannot see the code.
	Unseen bool
}

// CompareCode compares the code of two calls.
func CompareCode(before, after *inspect.Call) (c CodeChange) {
	if before == nil || after == nil || before.Code == nil || after.Code == nil {
		from, _ := LogicVersion(before)
		to, _ := LogicVersion(after)
		return CodeChange{Unseen: from == "" || to == ""} // The responses may name the versions of their code.
	}
	if before.Code.Digest == after.Code.Digest {
		return c
	}
	c.Hook, c.Since = after.Name, after.Code.Since
	if before.Code.Source != "" && after.Code.Source != "" {
		c.Diff = diff.Texts(before.Code.Source, after.Code.Source)
	}
	return c
}

// LogicVersion returns the logicVersion in the response of a call; "" for none. It is unknown without a
// whole response: the call failed, or the response is no longer in memory or hidden.
func LogicVersion(call *inspect.Call) (version string, known bool) {
	if call == nil || len(call.Response) == 0 {
		return "", false
	}
	var response struct{ LogicVersion string }
	if json.Unmarshal(call.Response, &response) != nil {
		return "", false
	}
	return response.LogicVersion, true
}
