package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// What the versions of the hook of barns do.
const (
	good       = "good"
	failsAll   = "fails-for-all"
	failsSome  = "fails-for-some"
	deletes    = "deletes-children"
	conditions = "meets-the-condition"
)

// firstStep is the percentage of the first step, in controllers.yaml.
const firstStep = 5

// rollouts is what is known of the versions of the hook of barns. The hook and the one who rolls out share it.
type rollouts struct {
	mu sync.Mutex
	// complete is the version that all barns return to.
	complete string
	// called are the UIDs of the barns that each version was called for.
	called map[string]map[string]bool
	// children are the UIDs of children, by that of the barn and their name. No child may be deleted, so each has one.
	children map[string]string
	// position is the highest stored position of each version.
	position map[string]int64
	// recreated are the problems with children that exist a second time, by the UID of the barn.
	recreated map[string][]string
	problems  []string
}

func newRollouts() *rollouts {
	return &rollouts{
		complete: "0-" + good, called: map[string]map[string]bool{}, children: map[string]string{}, recreated: map[string][]string{},
		position: map[string]int64{"0-" + good: rollout.End},
	}
}

func (r *rollouts) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func defectOf(version string) string {
	_, defect, _ := strings.Cut(version, "-")
	return defect
}

// note notes a call of a version.
func (r *rollouts) note(version string, q *hookRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := q.Parent.Metadata.UID
	if r.called[version] == nil {
		r.called[version] = map[string]bool{}
	}
	r.called[version][uid] = true
	for _, c := range q.Children.all() {
		key := uid + " " + c.Metadata.Name
		if before := r.children[key]; before != "" && before != c.Metadata.UID {
			r.recreated[uid] = append(r.recreated[uid], fmt.Sprintf("child %s of the barn %s was deleted, and created again, before a call of %s",
				c.Metadata.Name, q.Parent.Metadata.Name, version))
		}
		r.children[key] = c.Metadata.UID
	}
}

// barn responds as a version of the hook does; nil for an error.
func (q *hookRequest) barn(version string) map[string]any {
	response := q.sync()
	switch defect := defectOf(version); {
	case defect == failsAll, defect == failsSome && rollout.Hash(q.Parent.Metadata.UID)%2 == 0:
		return nil
	case defect == deletes:
		response["children"] = []any{}
	default:
		for _, c := range response["children"].([]any) {
			c.(map[string]any)["data"].(map[string]any)["version"] = version
		}
	}
	return response
}

// releaser rolls out one version of the hook of barns after the other.
type releaser struct {
	*soakRun
	rand *rand.Rand
	n    int
}

func (s *soakRun) newReleaser() *releaser {
	return &releaser{soakRun: s, rand: newRand(s.seed, "releaser")}
}

// awaitFirst waits until the first version is stored as the one to return to.
func (r *releaser) awaitFirst() {
	eventually(r.t, "the first version to be complete", func(ctx context.Context) error {
		stored, err := r.cluster.Resource(barnController).Get(ctx, barn+"s", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := rolloutOf(stored); s == nil || s.Phase != setpoint.RolloutComplete {
			return fmt.Errorf("status.rollout is %+v", s)
		}
		return nil
	})
}

// work rolls out versions until ctx is done. It returns when the last one is complete or taken back.
func (r *releaser) work(ctx context.Context) {
	for {
		all := []string{good, failsAll, failsSome, deletes, conditions}
		r.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, defect := range all {
			if ctx.Err() != nil {
				return
			}
			r.n++
			r.release(ctx, fmt.Sprintf("%d-%s", r.n, defect))
		}
	}
}

// release is the rollout of one version.
type release struct {
	*releaser
	version string
	// before are the UIDs of the barns at its beginning, barns how many there were at most.
	before map[string]bool
	barns  int
	// generation is that of the edit; percent how far it came.
	generation int64
	percent    int32
	status     *setpoint.RolloutStatus
	undone     bool
}

// release rolls out a version until it is complete or taken back, although the faults may end meanwhile.
func (r *releaser) release(faults context.Context, version string) {
	v := &release{releaser: r, version: version, before: r.barnUIDs()}
	v.barns = len(v.before)
	v.generation = r.edit(fmt.Sprintf(`{"spec":{"rollout":{"paused":false},"hooks":{"sync":{"webhook":{"url":%q}}}}}`,
		r.hook.url()+"/rollout/"+version)).GetGeneration()
	for over := (time.Time{}); !v.ended(); _ = pause(r.t.Context(), 100*time.Millisecond) {
		switch {
		case faults.Err() == nil:
			v.interfere()
		case over.IsZero():
			over = time.Now()
		case time.Since(over) > *convergeTimeout || r.t.Context().Err() != nil:
			v.doesNotEnd()
			return
		}
	}
	v.check()
}

func (v *release) doesNotEnd() {
	v.rollouts.mu.Lock()
	defer v.rollouts.mu.Unlock()
	v.rollouts.problem("the rollout of %s (generation %d, undone: %v) does not end: %+v", v.version, v.generation, v.undone, v.status)
}

// edit patches the controller of barns, and returns it as stored. It tries until it succeeds.
func (r *releaser) edit(patch string) *unstructured.Unstructured {
	for r.t.Context().Err() == nil {
		stored, err := r.cluster.Resource(barnController).Patch(r.t.Context(), barn+"s", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil {
			return stored
		}
		_ = pause(r.t.Context(), 100*time.Millisecond)
	}
	return &unstructured.Unstructured{}
}

var barnController = resourceOf("setpoint.dev/v1alpha1", "CompositeController")

// barnUIDs returns the UIDs of all barns; nil if the API server does not respond.
func (r *releaser) barnUIDs() map[string]bool {
	list, err := r.cluster.in(parentsOf(barn)).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	all := map[string]bool{}
	for i := range list.Items {
		all[string(list.Items[i].GetUID())] = true
	}
	return all
}

// ended looks at the rollout, and starts a good version again that a fault has taken back.
func (v *release) ended() bool {
	v.barns = max(v.barns, len(v.barnUIDs()))
	stored, err := v.cluster.Resource(barnController).Get(v.t.Context(), barn+"s", metav1.GetOptions{})
	if err != nil {
		return false
	}
	s := rolloutOf(stored)
	if s == nil || s.observed < v.generation {
		return false
	}
	if v.status == nil || v.status.Phase != s.Phase || v.status.Percent != s.Percent {
		v.t.Logf("%s at %s: %+v", v.version, time.Now().Format(time.TimeOnly), s.RolloutStatus)
	}
	v.note(&s.RolloutStatus)
	if s.Phase == setpoint.RolloutRolledBack && defectOf(v.version) == good {
		v.tally.add("a fault takes a good version back; it is resumed")
		v.retry()
		return false
	}
	return s.Phase != setpoint.RolloutStepping
}

// note keeps how far the rollout came.
func (v *release) note(s *setpoint.RolloutStatus) {
	v.status = s
	v.percent = max(v.percent, s.Percent)
	v.rollouts.mu.Lock()
	defer v.rollouts.mu.Unlock()
	position := v.status.Position
	if v.status.Phase == setpoint.RolloutComplete {
		position = rollout.End
	}
	if v.undone && v.percent == 100 {
		position = rollout.End // It may have been complete before.
	} else if v.undone {
		return
	}
	v.rollouts.position[v.version] = max(v.rollouts.position[v.version], position)
}

// observedRollout is the status of a rollout, and the generation that it is of.
type observedRollout struct {
	setpoint.RolloutStatus
	observed int64
}

func rolloutOf(stored *unstructured.Unstructured) *observedRollout {
	text, _, _ := unstructured.NestedMap(stored.Object, "status", "rollout")
	s := &observedRollout{}
	if text == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(text, &s.RolloutStatus) != nil {
		return nil
	}
	s.observed, _, _ = unstructured.NestedInt64(stored.Object, "status", "observedGeneration")
	return s
}

// retry starts a rollout again that was taken back.
func (v *release) retry() {
	v.edit(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, setpoint.AnnotationRolloutRetryAt, time.Now().Format(time.RFC3339Nano)))
	for v.t.Context().Err() == nil {
		stored, err := v.cluster.Resource(barnController).Get(v.t.Context(), barn+"s", metav1.GetOptions{})
		if err == nil && rolloutOf(stored).RetryAt == stored.GetAnnotations()[setpoint.AnnotationRolloutRetryAt] {
			return
		}
		_ = pause(v.t.Context(), 100*time.Millisecond)
	}
}

// interfere pauses, resumes or undoes the rollout, now and then.
func (v *release) interfere() {
	switch n := v.rand.IntN(200); {
	case n < 3:
		v.tally.add("a user pauses a rollout")
		v.edit(`{"spec":{"rollout":{"paused":true}}}`)
		_ = pause(v.t.Context(), time.Duration(v.rand.IntN(2000))*time.Millisecond)
		v.edit(`{"spec":{"rollout":{"paused":false}}}`)
	case n < 4 && v.status != nil && v.status.Phase == setpoint.RolloutStepping:
		v.tally.add("a user undoes a rollout")
		stored := v.edit(fmt.Sprintf(`{"spec":{"hooks":{"sync":{"webhook":{"url":%q}}}}}`, v.hook.url()+"/rollout/"+v.rollouts.complete))
		// The edit may have taken longer than a step.
		if s := rolloutOf(stored); s != nil {
			v.note(&s.RolloutStatus)
		}
		v.undone, v.generation = true, stored.GetGeneration()
	}
}

// check compares who was called with how far the rollout came.
func (v *release) check() {
	v.rollouts.mu.Lock()
	defer v.rollouts.mu.Unlock()
	defect, allowed := defectOf(v.version), (v.barns*int(v.percent)+99)/100
	v.tally.add(fmt.Sprintf("rollout of a version: %s, ended %s", defect, strings.ToLower(string(v.status.Phase))))
	switch {
	case v.undone:
	case defect == good:
		v.rollouts.complete = v.version
		return
	case v.status.Phase != setpoint.RolloutRolledBack:
		v.rollouts.problem("%s is not taken back: %+v", v.version, v.status)
	case defect != failsSome && v.percent > firstStep:
		v.rollouts.problem("%s came to %d %%", v.version, v.percent)
	}
	if moved := v.moved(); moved > allowed {
		v.rollouts.problem("%s was called for %d of %d barns in the step of %d %%", v.version, moved, v.barns, v.percent)
	}
}

// moved returns how many of the barns that were there all the time the version was called for.
func (v *release) moved() int {
	after, moved := v.barnUIDs(), 0
	for uid := range v.rollouts.called[v.version] {
		if v.before[uid] && after[uid] {
			moved++
		}
	}
	return moved
}

// checkRollouts wants each call to be one of the version of the barn's position, and all barns to be on the version
// that is complete.
func (f *state) checkRollouts() {
	r := f.rollouts
	r.mu.Lock()
	defer r.mu.Unlock()
	f.problems = append(f.problems, r.problems...)
	for uid, problems := range r.recreated {
		// The garbage collector deletes the children of a barn that a user has deleted, and Setpoint may hear of the
		// deletion of the barn last.
		if f.parents[uid] != nil {
			f.problems = append(f.problems, problems...)
		}
	}
	for version, uids := range r.called {
		for uid := range uids {
			// A rollout may come and go while the API server is away from this test. How many were moved is checked in any case.
			if position := r.position[version]; position > 0 && !rollout.Moved(uid, position) {
				f.problem("%s was called for the barn with the UID %s, which is beyond the position %d", version, uid, r.position[version])
			}
		}
	}
	for _, c := range f.children() {
		version, _, _ := unstructured.NestedString(c.Object, "data", "version")
		if owner := ownerOf(c); owner != nil && owner.Kind == title(barn) && version != r.complete {
			f.problem("%s is of version %q, want %q", c.GetName(), version, r.complete)
		}
	}
}
