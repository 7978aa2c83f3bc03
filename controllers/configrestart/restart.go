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
	patience time.Duration
	now      func() time.Time
}

// progress is what is remembered of a change while pods leave.
type progress struct {
	// since tells the change from others.
	since time.Time
	last  departure
	// left are the pods that were asked to leave.
	left map[types.UID]bool
	// complained says that it was told why nobody leaves.
	complained bool
}

// often and seldom is how soon to look at pods again.
const (
	often  = 500 * time.Millisecond
	seldom = 30 * time.Second
)

// restart has the pods leave that are older than a change of the data. It is
// called until none is there.
func (r *restarter) restart(ctx context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
	p := setpoint.Memory[progress](c)
	wanted, err := wishOf(c.Object.Annotations)
	if err != nil {
		if !p.since.Equal(c.Since) {
			*p = progress{since: c.Since}
			c.Warn(reasonInvalid, "the data changed, but no pod is restarted: %s", err)
		}
		// Mended, it is called at once.
		c.Requeue(time.Hour)
		return nil
	}
	if p.left == nil || !p.since.Equal(c.Since) {
		*p = progress{since: c.Since, left: map[types.UID]bool{}, last: departure{until: r.now().Add(r.patience)}}
		announce(c, wanted)
		return nil
	}
	var pods []corev1.Pod
	if err := c.List(ctx, &pods, wanted.selector); err != nil {
		return err
	}
	s := look(pods, c.Since)
	if len(s.old) == 0 {
		finish(c, p, &s)
		return nil
	}
	leaving := s.next(wanted, p.last, r.now())
	if p.dismiss(c, leaving, wanted) {
		p.last = departure{ready: s.ready, until: r.now().Add(r.patience)}
	}
	r.explain(c, p, &s, leaving)
	c.Requeue(r.pause(p))
	return nil
}

// announce says what is about to happen. Nothing does before that is recorded: who
// comes after us knows since when the data is as it is.
func announce(c *setpoint.Call[corev1.ConfigMap], wanted wish) {
	var changed []string
	for _, change := range c.Changes {
		changed = append(changed, change.Path)
	}
	c.Log.Info("modification detected", "changed", cmp.Or(strings.Join(changed, " "), "unseen"), "pods", wanted.selector)
	c.Event("ModificationDetected", "the pods that match %s are restarted", wanted.selector)
	c.Requeue(time.Millisecond)
}

// dismiss has pods leave, and says whether there are some that had not been asked to
// before: a budget may keep them for a while. That they have left is logged by the
// loop, and told in an event, once it is so.
func (p *progress) dismiss(c *setpoint.Call[corev1.ConfigMap], leaving []*corev1.Pod, wanted wish) (some bool) {
	for _, pod := range leaving {
		some = some || !p.left[pod.UID]
		p.left[pod.UID] = true
		if wanted.allAtOnce {
			c.Delete(pod)
		} else {
			c.Evict(pod)
		}
	}
	if len(leaving) > 0 {
		c.Event("PodsLeave", "restarted to have the new data: %s", strings.Join(names(leaving), ", "))
	}
	return some
}

// explain says once why nobody leaves for a long time: the new data may be no good.
func (r *restarter) explain(c *setpoint.Call[corev1.ConfigMap], p *progress, s *scene, leaving []*corev1.Pod) {
	if len(leaving) > 0 || p.complained || len(s.late) == 0 || r.now().Before(p.last.until) {
		return
	}
	p.complained = true
	c.Log.Warn("waiting for pods to be ready", "waiting", strings.Join(names(s.late), " "))
	c.Warn("Waiting", "not ready with the new data: %s; until they are, these stay: %s",
		strings.Join(names(s.late), ", "), strings.Join(names(s.old), ", "))
}

// pause is how soon to look again: the longer nothing happens, the later.
func (r *restarter) pause(p *progress) time.Duration {
	idle := r.now().Sub(p.last.until.Add(-r.patience))
	return min(max(idle/4, often), seldom)
}

// finish says how it ended.
func finish(c *setpoint.Call[corev1.ConfigMap], p *progress, s *scene) {
	if len(s.alone) > 0 {
		c.Warn("NotRestarted", "nobody would start these anew, so they keep the old data: %s", strings.Join(names(s.alone), ", "))
	}
	c.Log.Info("pods restarted", "count", len(p.left))
	*p = progress{}
}
