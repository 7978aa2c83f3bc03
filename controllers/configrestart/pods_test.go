package configrestart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// changed is when the data changed, in the middle of a second.
func changed() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC) }

// pod reads "name age state…": the age in seconds when the data changed, and any of
// waiting, leaving, done, bare and static.
func pod(text string) corev1.Pod {
	parts := strings.Fields(text)
	var age int
	_, _ = fmt.Sscan(parts[1], &age) // If it is not a number, the tests do not use the age.
	created := metav1.NewTime(changed().Truncate(time.Second).Add(-time.Duration(age) * time.Second))
	isController := true
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: parts[0], Namespace: "shop", UID: types.UID(parts[0] + parts[1]), CreationTimestamp: created,
		Labels:          map[string]string{"app": "frontend"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "frontend", UID: "1", Controller: &isController}},
	}}
	ready := corev1.ConditionTrue
	for _, state := range parts[2:] {
		switch state {
		case "waiting":
			ready = corev1.ConditionFalse
		case "leaving":
			p.DeletionTimestamp = &created
		case "done":
			p.Status.Phase = corev1.PodSucceeded
		case "bare":
			p.OwnerReferences = nil
		case "static":
			p.OwnerReferences[0].Kind = "Node"
		}
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

// pods reads one with each argument.
func pods(texts ...string) []corev1.Pod {
	var all []corev1.Pod
	for _, text := range texts {
		all = append(all, pod(text))
	}
	return all
}

func TestWhichPodsAreDeleted(t *testing.T) {
	soon, past := changed().Add(time.Minute), changed().Add(-time.Minute)
	for name, c := range map[string]struct {
		pods      []corev1.Pod
		allAtOnce bool
		last      lastDeletion
		old, next string
	}{
		"no pods":                          {},
		"the eldest first":                 {pods: pods("b 5", "a 5", "c 9"), old: "c a b", next: "c"},
		"of the same second":               {pods: pods("a 0"), old: "a", next: "a"},
		"younger ones stay":                {pods: pods("a -1", "b -60"), old: ""},
		"all at once":                      {pods: pods("a 5", "b 5 waiting", "c -1 waiting"), allAtOnce: true, old: "b a", next: "b a"},
		"what does not work goes first":    {pods: pods("a 5", "b 5 waiting", "c 5 waiting"), old: "b c a", next: "b c"},
		"nothing works":                    {pods: pods("a 5 waiting", "b 5 waiting"), old: "a b", next: "a b"},
		"a new one is not ready":           {pods: pods("a 5", "b -1 waiting"), old: "a"},
		"nor is it, but there are useless": {pods: pods("a 5", "b -1 waiting", "c 5 waiting"), old: "c a", next: "c"},
		"a replacement is not there":       {pods: pods("a 5"), last: lastDeletion{2, soon}, old: "a"},
		"nor will it ever be":              {pods: pods("a 5"), last: lastDeletion{2, past}, old: "a", next: "a"},
		"the replacement is ready":         {pods: pods("a 5", "b -1"), last: lastDeletion{2, soon}, old: "a", next: "a"},
		"on its way out":                   {pods: pods("a 5 leaving", "b 6 done", "c 5"), old: "c", next: "c"},
		"no controller recreates them":     {pods: pods("a 5 bare", "b 5 static", "c 5"), old: "c", next: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			s := classify(c.pods, changed())
			if got := joined(s.outdated); got != c.old {
				t.Errorf("old: got %q, want %q", got, c.old)
			}
			if got := joined(s.next(restartSettings{allAtOnce: c.allAtOnce}, c.last, changed())); got != c.next {
				t.Errorf("next: got %q, want %q", got, c.next)
			}
		})
	}
}

// joined are the names of pods in their order.
func joined(pods []*corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, pod.Name)
	}
	return strings.Join(all, " ")
}
