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

// restarter restarts pods.
type restarter struct {
	replacementTimeout time.Duration
	now                func() time.Time
}

// progress is the state of one change while pods are being deleted.
type progress struct {
	// since identifies the change.
	since time.Time
	last  lastDeletion
	// requested are the pods whose deletion was requested.
	requested map[types.UID]bool
	// warned reports that a warning about missing progress was sent.
	warned bool
}

// The limits of the requeue interval.
const (
	minInterval = 500 * time.Millisecond
	maxInterval = 30 * time.Second
)

// restart deletes the pods that are older than a change of the data. It requeues until
// there are none.
func (r *restarter) restart(ctx context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
	p := setpoint.Memory[progress](c)
	settings, err := parseAnnotations(c.Object.Annotations)
	if err != nil {
		if !p.since.Equal(c.Since) {
			*p = progress{since: c.Since}
			c.Warn(reasonInvalid, "the data changed, but no pod is restarted: %s", err)
		}
		// A correction of the annotation calls the handler at once.
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
	idle := r.now().Sub(p.last.until.Add(-r.replacementTimeout))
	c.Requeue(min(max(idle/4, minInterval), maxInterval))
	return nil
}

// announce reports the restart. Setpoint records the change before the first deletion, so
// that a restarted program knows its time.
func announce(c *setpoint.Call[corev1.ConfigMap], settings restartSettings) {
	var changed []string
	for _, change := range c.Changes {
		changed = append(changed, change.Path)
	}
	c.Log.Info("data changed", "changed", cmp.Or(strings.Join(changed, " "), "unseen"), "pods", settings.selector)
	c.Event("DataChanged", "restarting the pods that match %s", settings.selector)
	c.Requeue(time.Millisecond)
}

// deletePods requests deletions, and reports whether some are new: a budget may delay
// them. Setpoint logs successful deletions and records an event.
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
		c.Event("RestartingPods", "restarting for the new data: %s", strings.Join(podNames(leaving), ", "))
	}
	return some
}

// warnIfStuck warns once if nothing has been deleted for long: the new data may be
// invalid.
func (r *restarter) warnIfStuck(c *setpoint.Call[corev1.ConfigMap], p *progress, s *podSet, leaving []*corev1.Pod) {
	if len(leaving) > 0 || p.warned || len(s.notReady) == 0 || r.now().Before(p.last.until) {
		return
	}
	p.warned = true
	c.Log.Warn("waiting for pods to be ready", "waiting", strings.Join(podNames(s.notReady), " "))
	c.Warn("Waiting", "not ready with the new data: %s; not restarted until they are: %s",
		strings.Join(podNames(s.notReady), ", "), strings.Join(podNames(s.outdated), ", "))
}

func finish(c *setpoint.Call[corev1.ConfigMap], p *progress, s *podSet) {
	if len(s.unmanaged) > 0 {
		c.Warn("NotRestarted", "not restarted, because no controller would replace them: %s", strings.Join(podNames(s.unmanaged), ", "))
	}
	c.Log.Info("pods restarted", "count", len(p.requested))
	*p = progress{}
}
