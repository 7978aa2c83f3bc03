package configrestart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// scenario is a change of a ConfigMap for which the handler runs repeatedly.
type scenario struct {
	app *setpoint.App
	of  *corev1.ConfigMap
	now time.Time
}

func newScenario(annotations ...string) *scenario {
	p := &scenario{app: setpoint.New("config-restart"), of: &corev1.ConfigMap{}, now: changed().Add(2 * time.Second)}
	Add(p.app, Options{Now: func() time.Time { return p.now }})
	p.of.Name, p.of.Namespace, p.of.Annotations = "frontend-config", "shop", map[string]string{}
	p.annotate(annotations...)
	return p
}

func (p *scenario) annotate(pairs ...string) {
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, ": ")
		p.of.Annotations[key] = value
	}
}

const frontend = Selector + ": app=frontend"

// handle calls the handler of the change, with these pods there, and says in a line
// what it did.
func (p *scenario) handle(t *testing.T, there ...string) string {
	t.Helper()
	var stored []any
	for _, one := range pods(there...) {
		stored = append(stored, &one)
	}
	r := setpointtest.Handle(t, p.app, "restart", p.of,
		setpointtest.Reason(setpoint.ReasonUpdate), setpointtest.Since(changed()), setpointtest.Stored(stored...))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Patch != nil || r.Applied != nil {
		t.Errorf("it writes %v and %v", r.Patch, r.Applied)
	}
	var did []string
	for _, d := range r.Deleted {
		verb := map[bool]string{true: "evict", false: "delete"}[d.Evict]
		did = append(did, fmt.Sprintf("%s %s/%s", verb, d.Namespace, d.Name))
	}
	for _, e := range r.Events {
		did = append(did, e.Type+" "+e.Reason)
	}
	if r.Requeue > 0 {
		did = append(did, "again after "+r.Requeue.String())
	}
	return strings.Join(did, ", ")
}

// expect tells, and compares what was done.
func (p *scenario) expect(t *testing.T, want string, there ...string) {
	t.Helper()
	if got := p.handle(t, there...); got != want {
		t.Errorf("with %q: %s; want: %s", there, got, want)
	}
}

func TestOneByOne(t *testing.T) {
	p := newScenario(frontend)
	p.expect(t, "Normal DataChanged, again after 1ms", "a 9", "b 8")
	p.expect(t, "evict shop/a, Normal RestartingPods, again after 500ms", "a 9", "b 8")
	p.expect(t, "again after 500ms", "b 8")
	p.expect(t, "again after 500ms", "b 8", "c -3 waiting")
	p.expect(t, "evict shop/b, Normal RestartingPods, again after 500ms", "b 8", "c -3")
	p.expect(t, "", "c -3", "d -4 waiting")
}

func TestAllAtOnce(t *testing.T) {
	p := newScenario(frontend, AllAtOnce+": true")
	p.handle(t)
	p.expect(t, "delete shop/a, delete shop/b, Normal RestartingPods, again after 500ms", "a 9", "b 8", "c 7 bare", "d -1")
	p.expect(t, "Warning NotRestarted", "c 7 bare", "d -1", "e -2 waiting")
}

// If a budget prevents the eviction of a pod, it is retried with backoff.
func TestABudgetIsRespected(t *testing.T) {
	p := newScenario(frontend)
	p.handle(t)
	p.expect(t, "evict shop/a, Normal RestartingPods, again after 500ms", "a 9", "b 8")
	p.now = p.now.Add(time.Minute)
	p.expect(t, "evict shop/a, Normal RestartingPods, again after 15s", "a 9", "b 8")
	p.now = p.now.Add(time.Hour)
	p.expect(t, "evict shop/a, Normal RestartingPods, again after 30s", "a 9", "b 8")
}

// New data that no pod gets ready with takes no more pods down, and that is said.
func TestBadDataStopsTheRestart(t *testing.T) {
	p := newScenario(frontend)
	p.handle(t)
	p.handle(t, "a 9", "b 8")
	for range 3 {
		p.expect(t, "again after 500ms", "b 8", "c -3 waiting")
	}
	p.now = p.now.Add(time.Minute)
	p.expect(t, "Warning Waiting, again after 15s", "b 8", "c -3 waiting")
	p.expect(t, "again after 15s", "b 8", "c -3 waiting")
}

// A malformed annotation is reported; once corrected, it has no effect on the result.
func TestCorrectedAnnotation(t *testing.T) {
	p := newScenario(Selector + ": app in (")
	p.expect(t, "Warning InvalidAnnotation, again after 1h0m0s", "a 9")
	p.expect(t, "again after 1h0m0s", "a 9")
	p.annotate(frontend)
	p.expect(t, "Normal DataChanged, again after 1ms", "a 9")
	p.expect(t, "evict shop/a, Normal RestartingPods, again after 500ms", "a 9")
}

func TestAnnotationsAreChecked(t *testing.T) {
	for annotation, want := range map[string]int{frontend: 0, Selector + ": ": 1, Selector + ": a b": 1} {
		r := setpointtest.Handle(t, newScenario().app, "check", newScenario(annotation).of)
		if r.Err != nil || len(r.Events) != want || want > 0 && r.Events[0].Reason != "InvalidAnnotation" {
			t.Errorf("%s: got %v, %v", annotation, r.Events, r.Err)
		}
	}
}

func TestParseAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		selector, allAtOnce string
		want                restartSettings
		wrong               string
	}{
		"one label":         {selector: "app=frontend", want: restartSettings{selector: "app=frontend"}},
		"several":           {selector: "app in (a, b),!old", want: restartSettings{selector: "app in (a, b),!old"}},
		"one by one":        {selector: "app=a", allAtOnce: "false", want: restartSettings{selector: "app=a"}},
		"all at once":       {selector: "app=a", allAtOnce: "true", want: restartSettings{selector: "app=a", allAtOnce: true}},
		"neither":           {selector: "app=a", allAtOnce: "yes", wrong: `must be "true" or "false", not "yes"`},
		"empty":             {selector: "", wrong: "would select every pod"},
		"blank":             {selector: "  ", wrong: "would select every pod"},
		"no selector":       {selector: "app=frontend=x", wrong: "must be a label selector, such as app=frontend"},
		"no label at all":   {selector: "=frontend", wrong: "must be a label selector"},
		"a set left open":   {selector: "app in (a", wrong: "must be a label selector"},
		"commas and no key": {selector: ",", wrong: "must be a label selector"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseAnnotations(map[string]string{Selector: c.selector, AllAtOnce: c.allAtOnce})
			switch {
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %+v, %v; want an error about %q", got, err, c.wrong)
			case c.wrong == "" && (err != nil || got != c.want):
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

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
