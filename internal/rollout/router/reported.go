package router

import (
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

const (
	// maxVersionRequests is how often a parent is queued because of one version. A replica with an older one may
	// respond.
	maxVersionRequests = 3
	versionRetryDelay  = time.Minute
)

// Reported follows the logicVersion of responses, so that parents are reconciled again after a hook was
// replaced behind its address. The programs of one controller share it.
type Reported struct {
	mu sync.Mutex
	// responses are by the version of the hooks in the spec, which two hooks may have in a rollout.
	responses map[string]*rollout.Responses
	parents   map[controller.ObjectID]reportedVersion
}

// reportedVersion is the version in the latest response about a parent.
type reportedVersion struct {
	uid, logic, version string
	// requests is how often it was queued because of the version requestedFor, requestedAt when it last was.
	requests     int
	requestedFor string
	requestedAt  time.Time
}

// NewReported returns a Reported without any response. Restored is the version that counted for the hooks of
// a version in the spec.
func NewReported(logic, restored string) *Reported {
	v := &Reported{responses: map[string]*rollout.Responses{}, parents: map[controller.ObjectID]reportedVersion{}}
	if restored != "" {
		v.of(logic).Restore(restored)
	}
	return v
}

func (v *Reported) of(logic string) *rollout.Responses {
	r := v.responses[logic]
	if r == nil {
		r = &rollout.Responses{}
		v.responses[logic] = r
	}
	return r
}

// note notes the version in a response about a parent, without values of Secrets.
func (v *Reported) note(of parent, logic, version string, secrets *redact.Values, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version == "" {
		v.of(logic).Add(version, now)
		delete(v.parents, of.ObjectID)
		return
	}
	p := v.parents[of.ObjectID]
	if p.uid != of.uid {
		p = reportedVersion{uid: strings.Clone(of.uid)}
	}
	if version != p.version { // A known one has none.
		version = secrets.Text(version)
	}
	p.logic, p.version = logic, v.of(logic).Add(version, now)
	v.parents[of.ObjectID] = p
}

func (v *Reported) drop(of controller.ObjectID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.parents, of)
}

// versionOf returns the version in the latest response about a parent; empty if unknown.
func (v *Reported) versionOf(of parent) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.parents[of.ObjectID]; p.uid == of.uid {
		return p.version
	}
	return ""
}

// ReportedState is what is known of the versions in responses.
type ReportedState struct {
	// Known means that there was a response, or a version from before a restart.
	Known bool
	// Current is the version that counts, and Before the one before it if that has just changed.
	Current, Before string
	// Problem is why versions cannot be followed.
	Problem string
}

// Settle makes the version of all responses for a while the one that counts, of the hooks of a version in the spec.
func (v *Reported) Settle(logic string, now time.Time) (state ReportedState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, r := range v.responses {
		before, changed := r.Settle(now)
		if problem := r.Problem(now); problem != "" {
			state.Problem = problem
		}
		if name == logic && changed {
			state.Before = before
		}
	}
	if r := v.responses[logic]; r != nil && r.HasNone(now) && !v.responded(logic) {
		v.responses[logic] = &rollout.Responses{} // The hook has none any more.
	}
	if r := v.responses[logic]; r != nil {
		state.Known, state.Current = true, r.Current()
	}
	return state
}

// responded reports whether the latest response about a parent has a version, from the hooks of a version in the spec.
func (v *Reported) responded(logic string) bool {
	for _, p := range v.parents {
		if p.logic == logic {
			return true
		}
	}
	return false
}

func (v *Reported) isEmpty() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.parents) == 0
}

// older returns the version that a parent should be reconciled by, if its latest response has another one.
func (v *Reported) older(of parent, now time.Time) (current string, is bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.parents[of.ObjectID]
	if p.uid != of.uid {
		return "", false
	}
	r := v.of(p.logic)
	if current = r.Current(); p.version == current || !r.Settled(now) {
		return "", false
	}
	if p.requestedFor != current {
		p.requestedFor, p.requests, p.requestedAt = current, 0, time.Time{}
	}
	if p.requests >= maxVersionRequests || now.Sub(p.requestedAt) < versionRetryDelay {
		return "", false
	}
	p.requests, p.requestedAt = p.requests+1, now
	v.parents[of.ObjectID] = p
	return current, true
}
