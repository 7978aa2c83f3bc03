package configrestart

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scene is how things are with the selected pods.
type scene struct {
	// old are those that have to leave, in that order.
	old []*corev1.Pod
	// late are those that came with the new data and are not ready yet.
	late []*corev1.Pod
	// alone are old pods that nobody would start anew.
	alone []*corev1.Pod
	// ready counts those that work, old and new.
	ready int
}

// look sorts pods by whether they are older than a change. What is on its way out,
// or has finished, is nobody's concern any more.
func look(pods []corev1.Pod, since time.Time) scene {
	var s scene
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		// Kubernetes notes whole seconds, the earlier one: a pod of the same second
		// may be older.
		old := !pod.CreationTimestamp.After(since)
		switch {
		case old && isAlone(pod):
			s.alone = append(s.alone, pod)
			continue
		case old:
			s.old = append(s.old, pod)
		case !isReady(pod):
			s.late = append(s.late, pod)
		}
		if isReady(pod) {
			s.ready++
		}
	}
	slices.SortFunc(s.old, before)
	return s
}

// before has those leave first that are of no use, then the eldest.
func before(a, b *corev1.Pod) int {
	if isReady(a) != isReady(b) {
		if isReady(b) {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// next are the pods that are to leave now; none while they have to wait: for those
// that came to be ready, and for as many to be ready as before the last one left.
func (s *scene) next(w wish, last departure, now time.Time) []*corev1.Pod {
	useless := slices.IndexFunc(s.old, isReady)
	switch {
	case w.allAtOnce || useless < 0:
		return s.old
	case useless > 0:
		// They do not work: nobody misses them.
		return s.old[:useless]
	case len(s.late) > 0, s.ready < last.ready && now.Before(last.until):
		return nil
	}
	return s.old[:1]
}

// departure is the last time that a pod left: how many were ready before, and until
// when that many are waited for.
type departure struct {
	ready int
	until time.Time
}

// isAlone says that nobody starts another pod in place of this one: no controller
// does, and neither does a node that has it from a file of its own.
func isAlone(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Node"
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// names are those of pods, for people.
func names(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, pod := range pods {
		all[i] = pod.Name
	}
	slices.Sort(all)
	return all
}
