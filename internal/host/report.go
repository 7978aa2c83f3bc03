package host

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
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reportEvery is how often the controllers' health is looked at, and so the
// least time between two writes of one controller's status.
const reportEvery = time.Second

// report keeps the status of the controller objects true.
func (f *fleet) report(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	f.unlearn()
	for {
		f.mu.Lock()
		members := maps.Clone(f.members)
		f.mu.Unlock()
		for key, m := range members {
			f.reportOne(ctx, key, m)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// unlearn drops what was written: another leader may have come between, or a CRD
// with another schema.
func (f *fleet) unlearn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.reported = reported{}
	}
}

// reportOne stores the status of one controller object if it has changed. A
// failure is no matter: the next look tries again.
func (f *fleet) reportOne(ctx context.Context, key queue.Key, m *member) {
	stored := f.kinds[key.Namespace].view.Get("", key.Name)
	f.mu.Lock()
	subject := *m
	f.mu.Unlock()
	if stored == nil || subject.object == nil || stored.UID() != subject.object.UID() {
		return
	}
	former := subject.reported.former(stored)
	status := subject.status(former, f.host.upkeep.finding(f.kinds[key.Namespace].Kind))
	if equality.Semantic.DeepEqual(former, status) {
		return
	}
	now := reported{status: status, stored: subject.reported.stored, given: true}
	if !subject.reported.lost(stored) {
		text, err := statusPatch(former, status)
		if err == nil {
			err = f.storeStatus(ctx, key, text)
		}
		if err != nil {
			f.host.log.Debug("controller status not stored", "controller", key.String(), "error", err.Error())
			return
		}
		now.stored = statusStored(f.kinds[key.Namespace].view.Get("", key.Name))
	}
	f.tellTurns(key, &subject.state, former.Conditions, status.Conditions)
	f.mu.Lock()
	m.reported = now
	f.mu.Unlock()
	f.tellDeletionsHeld(&subject, former, status)
}

// reported is the status that was written last, and what the API server made of
// it: a schema that is not ours prunes what it does not know.
type reported struct {
	given          bool
	status, stored setpoint.ControllerStatus
}

// former is the status that an object was given, as long as what came of it is
// still stored, else what is stored now.
func (r *reported) former(o *object.Object) setpoint.ControllerStatus {
	stored := statusStored(o)
	if r.given && equality.Semantic.DeepEqual(stored, r.stored) {
		return r.status
	}
	return stored
}

// lost says that nothing came of what was written: to write more is of no use
// before the schema is another.
func (r *reported) lost(o *object.Object) bool {
	none := setpoint.ControllerStatus{}
	return r.given && equality.Semantic.DeepEqual(r.stored, none) && equality.Semantic.DeepEqual(statusStored(o), none)
}

// statusStored is the status that an object has, without what others note there:
// see hold.
func statusStored(o *object.Object) setpoint.ControllerStatus {
	if o == nil {
		return setpoint.ControllerStatus{}
	}
	stored := formerStatus(o)
	stored.Finalizes = nil
	return stored
}

// statusPatch is a merge patch that makes a status of another one: what is gone has to be
// said.
func statusPatch(former, now setpoint.ControllerStatus) ([]byte, error) {
	if former.HeldDeletions == nil || now.HeldDeletions != nil {
		return json.Marshal(map[string]any{"status": now})
	}
	return json.Marshal(map[string]any{"status": struct {
		setpoint.ControllerStatus

		HeldDeletions *setpoint.HeldDeletions `json:"heldDeletions"`
	}{ControllerStatus: now}})
}

// formerStatus is the status an object has. One that cannot be read is replaced.
func formerStatus(o *object.Object) setpoint.ControllerStatus {
	var former setpoint.ControllerStatus
	if field := o.Field("status"); field != nil && json.Unmarshal(field, &former) != nil {
		return setpoint.ControllerStatus{}
	}
	return former
}

func (f *fleet) storeStatus(ctx context.Context, key queue.Key, body []byte) error {
	return f.patch(ctx, key, "/status", body)
}

// status judges a member as it is now.
func (m *member) status(former setpoint.ControllerStatus, crd finding) setpoint.ControllerStatus {
	if m.leaving != "" {
		// Whether it was accepted, and what it cared for, is what it was.
		former.Conditions = slices.Clone(former.Conditions)
		meta.SetStatusCondition(&former.Conditions, ready(finding{}, &m.state, engine.Health{}).condition(setpoint.ConditionReady, m.object.Generation()))
		return former
	}
	var health engine.Health
	if m.running != nil {
		health = m.running.health()
	}
	verdict := accepted(m.refusal, m.notes, health)
	status := statusOf(former, m.object.Generation(), verdict, ready(verdict, &m.state, health), health)
	setDeletionsHeld(&status, m.name(), m.object.Generation(), health)
	m.addProblem(&status, setpoint.ConditionStatusStored, m.statusStored())
	m.addProblem(&status, setpoint.ConditionCRDCurrent, crd)
	return status
}

// name is that of the controller as commands take it.
func (m *member) name() string { return m.kind + "/" + m.object.Name() }

// addProblem adds a condition that is there from its first problem on.
func (m *member) addProblem(status *setpoint.ControllerStatus, kind string, found finding) {
	if !found.ok || meta.FindStatusCondition(status.Conditions, kind) != nil {
		meta.SetStatusCondition(&status.Conditions, found.condition(kind, m.object.Generation()))
	}
}

// statusOf is the status to store, given the former one: a condition keeps the
// time of its last transition.
func statusOf(former setpoint.ControllerStatus, generation int64, accepted, ready finding, health engine.Health) setpoint.ControllerStatus {
	status := setpoint.ControllerStatus{
		ObservedGeneration: generation,
		Conditions:         slices.Clone(former.Conditions),
		Parents:            int32Of(health.Parents),
		Children:           int32Of(health.Children),
		ParentsInError:     int32Of(health.InError),
		Paused:             int32Of(health.Paused),
		LastError:          former.LastError,
		HeldDeletions:      former.HeldDeletions,
	}
	meta.SetStatusCondition(&status.Conditions, accepted.condition(setpoint.ConditionAccepted, generation))
	meta.SetStatusCondition(&status.Conditions, ready.condition(setpoint.ConditionReady, generation))
	if health.Unsettled > 0 || meta.FindStatusCondition(status.Conditions, setpoint.ConditionSettled) != nil {
		meta.SetStatusCondition(&status.Conditions, settled(health).condition(setpoint.ConditionSettled, generation))
	}
	if !health.Last.Time.IsZero() {
		status.LastError = &setpoint.LastError{
			Message: health.Last.Message, Object: health.Last.Object, Time: metav1.NewTime(health.Last.Time.Truncate(time.Second)),
		}
	}
	return status
}

func int32Of(n int) int32 { return int32(min(n, math.MaxInt32)) }
