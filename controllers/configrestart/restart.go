package configrestart

import (
	"cmp"
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
)

// restarter has pods restarted.
type restarter struct {
	replacementTimeout time.Duration
	now                func() time.Time
}

// progress is what is remembered of a change while pods leave.
type progress struct {
	// since tells the change from others.
	since time.Time
	last  lastDeletion
	// requested are the pods that were asked to leave.
	requested map[types.UID]bool
	// warned says that it was told why nobody leaves.
	warned bool
}

// often and seldom is how soon to look at pods again.
const (
	minInterval = 500 * time.Millisecond
	maxInterval = 30 * time.Second
)

// restart has the pods leave that are older than a change of the data. It is
// called until none is there.
func (r *restarter) restart(ctx context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
	p := setpoint.Memory[progress](c)
	settings, err := parseAnnotations(c.Object.Annotations)
	if err != nil {
		if !p.since.Equal(c.Since) {
			*p = progress{since: c.Since}
			c.Warn(reasonInvalid, "the data changed, but no pod is restarted: %s", err)
		}
		// Mended, it is called at once.
		c.Requeue(time.Hour)
		return nil
	}
	if p.requested == nil || !p.since.Equal(c.Since) {
		*p = progress{since: c.Since, requested: map[types.UID]bool{}, last: lastDeletion{until: r.now().Add(r.replacementTimeout)}}
		announce(c, settings)
		return nil
	}
	var pods []corev1.Pod
	if err := c.List(ctx, &pods, settings.selector); err != nil {
		return err
	}
	s := classify(pods, c.Since)
	if len(s.outdated) == 0 {
		finish(c, p, &s)
		return nil
	}
	leaving := s.next(settings, p.last, r.now())
	if p.deletePods(c, leaving, settings) {
		p.last = lastDeletion{ready: s.ready, until: r.now().Add(r.replacementTimeout)}
	}
	r.warnIfStuck(c, p, &s, leaving)
	c.Requeue(r.requeueInterval(p))
	return nil
}

// announce says what is about to happen. Nothing does before that is recorded: who
// comes after us knows since when the data is as it is.
func announce(c *setpoint.Call[corev1.ConfigMap], settings restartSettings) {
	var changed []string
	for _, change := range c.Changes {
		changed = append(changed, change.Path)
	}
	c.Log.Info("modification detected", "changed", cmp.Or(strings.Join(changed, " "), "unseen"), "pods", settings.selector)
	c.Event("ModificationDetected", "the pods that match %s are restarted", settings.selector)
	c.Requeue(time.Millisecond)
}

// deletePods has pods leave, and says whether there are some that had not been asked to
// before: a budget may keep them for a while. That they have left is logged by the
// loop, and told in an event, once it is so.
func (p *progress) deletePods(c *setpoint.Call[corev1.ConfigMap], leaving []*corev1.Pod, settings restartSettings) (some bool) {
	for _, pod := range leaving {
		some = some || !p.requested[pod.UID]
		p.requested[pod.UID] = true
		if settings.allAtOnce {
			c.Delete(pod)
		} else {
			c.Evict(pod)
		}
	}
	if len(leaving) > 0 {
		c.Event("PodsLeave", "restarted to have the new data: %s", strings.Join(podNames(leaving), ", "))
	}
	return some
}

// warnIfStuck says once why nobody leaves for a long time: the new data may be no good.
func (r *restarter) warnIfStuck(c *setpoint.Call[corev1.ConfigMap], p *progress, s *podSet, leaving []*corev1.Pod) {
	if len(leaving) > 0 || p.warned || len(s.notReady) == 0 || r.now().Before(p.last.until) {
		return
	}
	p.warned = true
	c.Log.Warn("waiting for pods to be ready", "waiting", strings.Join(podNames(s.notReady), " "))
	c.Warn("Waiting", "not ready with the new data: %s; until they are, these stay: %s",
		strings.Join(podNames(s.notReady), ", "), strings.Join(podNames(s.outdated), ", "))
}

// requeueInterval is how soon to look again: the longer nothing happens, the later.
func (r *restarter) requeueInterval(p *progress) time.Duration {
	idle := r.now().Sub(p.last.until.Add(-r.replacementTimeout))
	return min(max(idle/4, minInterval), maxInterval)
}

// finish says how it ended.
func finish(c *setpoint.Call[corev1.ConfigMap], p *progress, s *podSet) {
	if len(s.unmanaged) > 0 {
		c.Warn("NotRestarted", "nobody would start these anew, so they keep the old data: %s", strings.Join(podNames(s.unmanaged), ", "))
	}
	c.Log.Info("pods restarted", "count", len(p.requested))
	*p = progress{}
}
