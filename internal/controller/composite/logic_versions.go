package composite

import (
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

const (
	// maxVersionRequests is how often a parent is queued because of one version. A replica with an older one may
	// respond.
	maxVersionRequests = 3
	versionRetryDelay  = time.Minute
)

// LogicVersions follows the logicVersion of responses, so that parents are reconciled again after a hook was
// replaced behind its address. The programs of one controller share it.
type LogicVersions struct {
	mu sync.Mutex
	// responses are by the version of the hooks in the spec, which two hooks may have in a rollout.
	responses map[string]*rollout.Responses
	parents   map[guardedParent]respondedVersion
}

// respondedVersion is the version in the latest response about a parent.
type respondedVersion struct {
	uid, logic, version string
	// requests is how often it was queued because of the version requestedFor, requestedAt when it last was.
	requests     int
	requestedFor string
	requestedAt  time.Time
}

// NewLogicVersions returns LogicVersions without any response. Restored is the version that counted for the hooks of
// a version in the spec.
func NewLogicVersions(logic, restored string) *LogicVersions {
	v := &LogicVersions{responses: map[string]*rollout.Responses{}, parents: map[guardedParent]respondedVersion{}}
	if restored != "" {
		v.of(logic).Restore(restored)
	}
	return v
}

func (v *LogicVersions) of(logic string) *rollout.Responses {
	r := v.responses[logic]
	if r == nil {
		r = &rollout.Responses{}
		v.responses[logic] = r
	}
	return r
}

// note notes the version in a response about a parent.
func (v *LogicVersions) note(of shadowed, logic, version string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version == "" {
		v.of(logic).Add(version, now)
		delete(v.parents, of.guardedParent)
		return
	}
	p := v.parents[of.guardedParent]
	if p.uid != of.uid {
		p = respondedVersion{uid: strings.Clone(of.uid)}
	}
	p.logic, p.version = logic, v.of(logic).Add(version, now)
	v.parents[of.guardedParent] = p
}

func (v *LogicVersions) drop(of guardedParent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.parents, of)
}

// versionOf returns the version in the latest response about a parent; empty if unknown.
func (v *LogicVersions) versionOf(of shadowed) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.parents[of.guardedParent]; p.uid == of.uid {
		return p.version
	}
	return ""
}

// LogicVersionState is what is known of the versions in responses.
type LogicVersionState struct {
	// Known means that there was a response, or a version from before a restart.
	Known bool
	// Current is the version that counts, and Before the one before it if that has just changed.
	Current, Before string
	// Problem is why versions cannot be followed.
	Problem string
}

// Settle makes the version of all responses for a while the one that counts, of the hooks of a version in the spec.
func (v *LogicVersions) Settle(logic string, now time.Time) (state LogicVersionState) {
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
func (v *LogicVersions) responded(logic string) bool {
	for _, p := range v.parents {
		if p.logic == logic {
			return true
		}
	}
	return false
}

// older returns the version that a parent should be reconciled by, if its latest response has another one.
func (v *LogicVersions) older(of shadowed, now time.Time) (current string, is bool) {
	p := v.parents[of.guardedParent]
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
	v.parents[of.guardedParent] = p
	return current, true
}

// QueueOlder queues parents that a hook of an older version reconciled last, at most so many. It returns how many more
// may be queued.
func (c *Controller) QueueOlder(limit int) (left int) {
	v := c.tools.LogicVersions
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.parents) == 0 {
		return limit
	}
	for parent := range c.Managed() {
		if limit == 0 {
			break
		}
		if current, is := v.older(c.shadowed(parent), c.tools.Now()); is && c.PhaseOf(parent) == controller.PhaseManaged {
			limit--
			c.Queue.Add(controller.KeyOf(parent), queue.Cause{Kind: queue.LogicChanged, Detail: current})
		}
	}
	return limit
}

// noteVersion notes the version in the latest response, without values of Secrets. A known one has none.
func (r *run) noteVersion(parent *object.Object) {
	if r.Phase != controller.PhaseManaged {
		return
	}
	of, version := r.shadowed(parent), r.response.LogicVersion
	if version != r.tools.LogicVersions.versionOf(of) {
		version = r.Secrets.Text(version)
	}
	r.tools.LogicVersions.note(of, r.logic.Version, version, r.tools.Now())
}
