package configrestart

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podSet is the state of the selected pods.
type podSet struct {
	// outdated are the pods to delete, in order.
	outdated []*corev1.Pod
	// notReady are pods with the new data that are not ready yet.
	notReady []*corev1.Pod
	// unmanaged are outdated pods that no controller would replace.
	unmanaged []*corev1.Pod
	// ready is the number of ready pods, old and new.
	ready int
}

// classify sorts pods by their creation before or after a change. It ignores pods that
// are being deleted or have finished.
func classify(pods []corev1.Pod, since time.Time) podSet {
	var s podSet
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		// Creation times are truncated to seconds: a pod of the same second may be older.
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

// comparePods sorts pods that are not ready first, then by age.
func comparePods(a, b *corev1.Pod) int {
	if isReady(a) != isReady(b) {
		if isReady(b) {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// next returns the pods to delete now. There are none while new pods are not ready, or
// fewer pods are ready than before the last deletion.
func (s *podSet) next(w restartSettings, last lastDeletion, now time.Time) []*corev1.Pod {
	firstReady := slices.IndexFunc(s.outdated, isReady)
	switch {
	case w.allAtOnce || firstReady < 0:
		return s.outdated
	case firstReady > 0:
		// Pods that are not ready can go at once.
		return s.outdated[:firstReady]
	case len(s.notReady) > 0, s.ready < last.ready && now.Before(last.until):
		return nil
	}
	return s.outdated[:1]
}

// lastDeletion is the last deletion: how many pods were ready before, and until when to
// wait for as many.
type lastDeletion struct {
	ready int
	until time.Time
}

// isUnmanaged reports that neither a controller nor a static manifest replaces a pod.
func isUnmanaged(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind == "Node"
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podNames(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, pod := range pods {
		all[i] = pod.Name
	}
	slices.Sort(all)
	return all
}
