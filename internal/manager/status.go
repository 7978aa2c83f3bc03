package manager

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reportEvery is how often the controllers' health is looked at, and so the
// least time between two writes of one controller's status.
const reportEvery = time.Second

// reportStatuses keeps the status of the controller objects true.
func (f *controllerSet) reportStatuses(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	f.resetReported()
	for {
		f.mu.Lock()
		members := maps.Clone(f.entries)
		f.mu.Unlock()
		for key, m := range members {
			f.reportStatus(ctx, key, m)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// resetReported drops what was written: another leader may have come between, or a CRD
// with another schema.
func (f *controllerSet) resetReported() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.entries {
		m.lastReported = reportedStatus{}
	}
}

// reportStatus stores the status of one controller object if it has changed. A
// failure is no matter: the next look tries again.
func (f *controllerSet) reportStatus(ctx context.Context, key queue.Key, m *controllerEntry) {
	stored := f.kinds[key.Namespace].view.Get("", key.Name)
	f.mu.Lock()
	subject := *m
	f.mu.Unlock()
	if stored == nil || subject.object == nil || stored.UID() != subject.object.UID() {
		return
	}
	previous := subject.lastReported.previous(stored)
	status := subject.status(previous, f.manager.crdDrift.currentCondition(f.kinds[key.Namespace].Kind))
	if equality.Semantic.DeepEqual(previous, status) {
		return
	}
	now := reportedStatus{status: status, stored: subject.lastReported.stored, written: true}
	if !subject.lastReported.pruned(stored) {
		text, err := statusPatch(previous, status)
		if err == nil {
			err = f.patchStatus(ctx, key, text)
		}
		if err != nil {
			f.manager.log.Debug("controller status not stored", "controller", key.String(), "error", err.Error())
			return
		}
		now.stored = comparableStatus(f.kinds[key.Namespace].view.Get("", key.Name))
	}
	f.recordTransitions(key, &subject.controllerState, previous.Conditions, status.Conditions)
	f.mu.Lock()
	m.lastReported = now
	f.mu.Unlock()
	f.recordDeletionsHeld(&subject, previous, status)
}

// reportedStatus is the status that was written last, and what the API server made of
// it: a schema that is not ours prunes what it does not know.
type reportedStatus struct {
	written        bool
	status, stored setpoint.ControllerStatus
}

// previous is the status that an object was given, as long as what came of it is
// still stored, else what is stored now.
func (r *reportedStatus) previous(o *object.Object) setpoint.ControllerStatus {
	stored := comparableStatus(o)
	if r.written && equality.Semantic.DeepEqual(stored, r.stored) {
		return r.status
	}
	return stored
}

// pruned says that nothing came of what was written: to write more is of no use
// before the schema is another.
func (r *reportedStatus) pruned(o *object.Object) bool {
	none := setpoint.ControllerStatus{}
	return r.written && equality.Semantic.DeepEqual(r.stored, none) && equality.Semantic.DeepEqual(comparableStatus(o), none)
}

// comparableStatus is the status that an object has, without what others note there:
// see hold.
func comparableStatus(o *object.Object) setpoint.ControllerStatus {
	if o == nil {
		return setpoint.ControllerStatus{}
	}
	stored := storedStatus(o)
	stored.Finalizes = nil
	return stored
}

// statusPatch is a merge patch that makes a status of another one: what is gone has to be
// said.
func statusPatch(previous, now setpoint.ControllerStatus) ([]byte, error) {
	if previous.HeldDeletions == nil || now.HeldDeletions != nil {
		return json.Marshal(map[string]any{"status": now})
	}
	return json.Marshal(map[string]any{"status": struct {
		setpoint.ControllerStatus

		HeldDeletions *setpoint.HeldDeletions `json:"heldDeletions"`
	}{ControllerStatus: now}})
}

// storedStatus is the status an object has. One that cannot be read is replaced.
func storedStatus(o *object.Object) setpoint.ControllerStatus {
	var previous setpoint.ControllerStatus
	if field := o.Field("status"); field != nil && json.Unmarshal(field, &previous) != nil {
		return setpoint.ControllerStatus{}
	}
	return previous
}

func (f *controllerSet) patchStatus(ctx context.Context, key queue.Key, body []byte) error {
	return f.patch(ctx, key, "/status", body)
}

// status judges a member as it is now.
func (m *controllerEntry) status(previous setpoint.ControllerStatus, crd conditionState) setpoint.ControllerStatus {
	if m.releasing != "" {
		// Whether it was accepted, and what it cared for, is what it was.
		previous.Conditions = slices.Clone(previous.Conditions)
		meta.SetStatusCondition(&previous.Conditions, readyCondition(conditionState{}, &m.controllerState, compose.Health{}).condition(setpoint.ConditionReady, m.object.Generation()))
		return previous
	}
	var health compose.Health
	if m.running != nil {
		health = m.running.health()
	}
	condition := acceptedCondition(m.refusal, m.notes, health)
	status := newStatus(previous, m.object.Generation(), condition, readyCondition(condition, &m.controllerState, health), health)
	setDeletionsHeld(&status, m.name(), m.object.Generation(), health)
	m.setProblemCondition(&status, setpoint.ConditionStatusStored, m.statusStoredCondition())
	m.setProblemCondition(&status, setpoint.ConditionCRDCurrent, crd)
	return status
}

// name is that of the controller as commands take it.
func (m *controllerEntry) name() string { return m.kind + "/" + m.object.Name() }

// setProblemCondition adds a condition that is there from its first problem on.
func (m *controllerEntry) setProblemCondition(status *setpoint.ControllerStatus, kind string, found conditionState) {
	if !found.ok || meta.FindStatusCondition(status.Conditions, kind) != nil {
		meta.SetStatusCondition(&status.Conditions, found.condition(kind, m.object.Generation()))
	}
}

// newStatus is the status to store, given the former one: a condition keeps the
// time of its last transition.
func newStatus(previous setpoint.ControllerStatus, generation int64, accepted, ready conditionState, health compose.Health) setpoint.ControllerStatus {
	status := setpoint.ControllerStatus{
		ObservedGeneration: generation,
		Conditions:         slices.Clone(previous.Conditions),
		Parents:            clampInt32(health.Parents),
		Children:           clampInt32(health.Children),
		ParentsInError:     clampInt32(health.Failing),
		Paused:             clampInt32(health.Paused),
		LastError:          previous.LastError,
		HeldDeletions:      previous.HeldDeletions,
	}
	meta.SetStatusCondition(&status.Conditions, accepted.condition(setpoint.ConditionAccepted, generation))
	meta.SetStatusCondition(&status.Conditions, ready.condition(setpoint.ConditionReady, generation))
	if health.Conflicting > 0 || meta.FindStatusCondition(status.Conditions, setpoint.ConditionSettled) != nil {
		meta.SetStatusCondition(&status.Conditions, conflictCondition(health).condition(setpoint.ConditionSettled, generation))
	}
	if !health.LastError.Time.IsZero() {
		status.LastError = &setpoint.LastError{
			Message: health.LastError.Message, Object: health.LastError.Object, Time: metav1.NewTime(health.LastError.Time.Truncate(time.Second)),
		}
	}
	return status
}

func clampInt32(n int) int32 { return int32(min(n, math.MaxInt32)) }
