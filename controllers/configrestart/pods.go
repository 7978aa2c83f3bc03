package configrestart

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podSet is how things are with the selected pods.
type podSet struct {
	// outdated are those that have to leave, in that order.
	outdated []*corev1.Pod
	// notReady are those that came with the new data and are not ready yet.
	notReady []*corev1.Pod
	// unmanaged are old pods that nobody would start anew.
	unmanaged []*corev1.Pod
	// ready counts those that work, old and new.
	ready int
}

// classify sorts pods by whether they are older than a change. What is on its way out,
// or has finished, is nobody's concern any more.
func classify(pods []corev1.Pod, since time.Time) podSet {
	var s podSet
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		// Kubernetes notes whole seconds, the earlier one: a pod of the same second
		// may be older.
		old := !pod.CreationTimestamp.After(since)
		switch {
		case old && isUnmanaged(pod):
			s.unmanaged = append(s.unmanaged, pod)
			continue
		case old:
			s.outdated = append(s.outdated, pod)
		case !isReady(pod):
			s.notReady = append(s.notReady, pod)
		}
		if isReady(pod) {
			s.ready++
		}
	}
	slices.SortFunc(s.outdated, comparePods)
	return s
}

// comparePods has those leave first that are of no use, then the eldest.
func comparePods(a, b *corev1.Pod) int {
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
func (s *podSet) next(w restartSettings, last lastDeletion, now time.Time) []*corev1.Pod {
	firstReady := slices.IndexFunc(s.outdated, isReady)
	switch {
	case w.allAtOnce || firstReady < 0:
		return s.outdated
	case firstReady > 0:
		// They do not work: nobody misses them.
		return s.outdated[:firstReady]
	case len(s.notReady) > 0, s.ready < last.ready && now.Before(last.until):
		return nil
	}
	return s.outdated[:1]
}

// lastDeletion is the last time that a pod left: how many were ready before, and until
// when that many are waited for.
type lastDeletion struct {
	ready int
	until time.Time
}

// isUnmanaged says that nobody starts another pod in place of this one: no controller
// does, and neither does a node that has it from a file of its own.
func isUnmanaged(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Node"
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podNames are those of pods, for people.
func podNames(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, pod := range pods {
		all[i] = pod.Name
	}
	slices.Sort(all)
	return all
}
