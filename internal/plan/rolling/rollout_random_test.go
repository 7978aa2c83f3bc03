package rolling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// simulation is a server with one parent, its hook, and a controller that may crash at any write.
type simulation struct {
	generator
	t              *testing.T
	revisionConfig Revisions
	method         plan.UpdateMethod
	most           int
	parent         *object.Object
	// children and revisions are the stored objects.
	children  map[plan.Key]*object.Object
	revisions map[string]*object.Object
	// birth counts the created children, for their UIDs.
	birth int
	// lives is how many writes are left before the controller crashes; negative if it does not.
	lives int
	// progress is that of the last run that did not crash.
	progress Progress
	history  []string
}

// errCrashed ends a run that crashed.
var errCrashed = errors.New("died")

func newSimulation(t *testing.T, g generator) *simulation {
	t.Helper()
	w := &simulation{
		generator: g, t: t, most: 1 + g.IntN(3), method: plan.RollingInPlace, revisionConfig: revisionsOf(),
		children: map[plan.Key]*object.Object{}, revisions: map[string]*object.Object{}, lives: -1,
	}
	if g.IntN(2) == 0 {
		w.method = plan.RollingRecreate
	}
	if g.IntN(2) == 0 {
		w.revisionConfig = revisionsOf([]string{"spec", "image"})
	}
	w.edit()
	return w
}

func (w *simulation) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *simulation) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.history, "\n"))
}

// edit changes the parent. Children with the image "bad" never become ready.
func (w *simulation) edit() {
	w.setParent(w.pick("a", "b", "c", "bad").(string), w.IntN(5))
}

func (w *simulation) setParent(image string, size int) {
	w.log("edit: %d of %s", size, image)
	w.parent = parse(w.t, strings.Replace(shop, `{"image":"b"}`, fmt.Sprintf(`{"image":%q,"size":%d}`, image, size), 1))
}

func (w *simulation) family() *plan.Planner {
	f := rollingPlanner(w.t, shop, w.method, w.most)
	f.Parent = w.parent
	return f
}

// image returns the image of an object.
func image(o *object.Object) string {
	return strings.Trim(string(o.Field("spec", "image")), `"`)
}

// desired is the hook: it returns a ConfigMap and some children with an image.
func (w *simulation) desired(f *plan.Planner, parent *object.Object) []plan.Child {
	w.t.Helper()
	response := []json.RawMessage{fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"image":%q}}`, image(parent))}
	for i := range int(parent.Field("spec", "size")[0] - '0') {
		response = append(response, json.RawMessage(web(i, image(parent))))
	}
	children, _, err := f.Desired(response)
	must.Succeed(w.t, err)
	return children
}

func (w *simulation) observed() []*object.Object {
	return slices.SortedFunc(maps.Values(w.children), func(a, b *object.Object) int {
		return strings.Compare(a.Ref().String(), b.Ref().String())
	})
}

// run reconciles until there is nothing left to do, or crashes.
func (w *simulation) run() {
	w.t.Helper()
	for range 50 {
		did, err := w.pass()
		if err != nil {
			w.log("died")
			return
		}
		if !did {
			return
		}
	}
	w.fail("the controller does not converge")
}

// pass is one pass of a run.
func (w *simulation) pass() (did bool, err error) {
	w.t.Helper()
	f := w.family()
	h := must.Get(w.revisionConfig.History(f, slices.Collect(maps.Values(w.revisions)), w.observed())).In(w.t)
	rollout := Rollout{Family: f, Observed: w.observed(), Latest: w.desired(f, w.parent)}
	for _, r := range h.Previous {
		previous := Revision{Claims: r.Claims}
		if len(r.Claims) > 0 && r.Known() {
			then := must.Get(h.ParentAt(w.parent, r)).In(w.t)
			previous.Children = w.desired(f, then)
		}
		rollout.Previous = append(rollout.Previous, previous)
	}
	step := must.Get(rollout.Step()).In(w.t)
	revisions := must.Get(h.Writes(step.Claims)).In(w.t)
	todo := must.Get(f.Changes(w.observed(), step.Desired, nil)).In(w.t)
	w.check(rollout, step, todo)
	if err := w.apply(revisions); err != nil {
		return true, err
	}
	w.progress = step.Progress
	return !revisions.Empty() || !todo.Empty(), w.apply(todo)
}

// check checks the guarantees of a rollout by the images of children before and after.
func (w *simulation) check(rollout Rollout, step Step, todo plan.Plan) {
	w.t.Helper()
	// own is the image at the child's own revision.
	own := map[plan.Key]string{}
	claimed := map[plan.Key]bool{}
	for _, previous := range rollout.Previous {
		maps.Copy(claimed, previous.Claims)
		for _, child := range previous.Children {
			if previous.Claims.Has(child.Object) {
				own[plan.KeyOf(child.Object)] = image(child.Object)
			}
		}
	}
	kept := map[plan.Key]bool{}
	for _, claims := range step.Claims {
		maps.Copy(kept, claims)
	}
	var unavailable, followers, moved, movedReady int
	for _, child := range rollout.Latest {
		name, stored := plan.KeyOf(child.Object), w.children[plan.KeyOf(child.Object)]
		if name.Kind != webs.GroupKind() {
			continue
		}
		// A child that differs from its own revision is written in any case, one that matches the
		// latest in none.
		isStrange := stored != nil && image(stored) != cmp.Or(own[name], image(stored)) && !w.isNew(name)
		notReady := must.Get(child.Rule.NotReadyReason(stored, w.parent)).In(w.t)
		isDisturbed := notReady != "" || isStrange
		isMoved := claimed[name] && !kept[name] && own[name] != image(w.parent) && !w.isNew(name)
		unavailable += count(isDisturbed)
		followers += count(isDisturbed && !claimed[name])
		moved += count(isMoved)
		movedReady += count(isMoved && !isDisturbed)
	}
	if moved > 0 && followers+moved > w.most {
		w.fail("%d are moved while %d that were moved are unavailable; %d may be", moved, followers, w.most)
	}
	if movedReady > 0 && unavailable+movedReady > w.most {
		w.fail("%d ready ones are moved while %d are unavailable; %d may be", movedReady, unavailable, w.most)
	}
	for _, stage := range todo.Stages {
		for _, action := range stage {
			w.checkWrite(action, kept)
		}
	}
}

// isNew reports whether a child already matches the latest revision.
func (w *simulation) isNew(name plan.Key) bool {
	child := w.children[name]
	return child != nil && !child.Deleting() && image(child) == image(w.parent)
}

// checkWrite checks that only children at the latest revision are written as it desires.
func (w *simulation) checkWrite(action plan.Action, kept map[plan.Key]bool) {
	w.t.Helper()
	made := action.After
	if action.Resource.Kind == webs.Kind && made != nil && kept[plan.KeyOf(made)] && image(made) == image(w.parent) {
		w.fail("%s: a claimed child is made as the latest revision wants it", action)
	}
}

// apply stores the writes. The controller may crash before any of them.
func (w *simulation) apply(p plan.Plan) error {
	for _, stage := range p.Stages {
		for _, i := range w.Perm(len(stage)) {
			if w.lives == 0 {
				return errCrashed
			}
			w.lives--
			w.log("  %s", stage[i])
			w.store(stage[i])
		}
	}
	return nil
}

func (w *simulation) store(action plan.Action) {
	w.t.Helper()
	if action.Resource == plan.ControllerRevisions {
		w.revisions[action.Ref.Name] = action.After
		if action.After == nil {
			delete(w.revisions, action.Ref.Name)
		}
		return
	}
	switch action.Verb {
	case plan.Create:
		w.birth++
		w.put(action.After, "metadata.uid", fmt.Sprintf(`"uid-%d"`, w.birth), "metadata.generation", "1")
	case plan.Update:
		generation := action.Before.Generation()
		if image(action.Before) != image(action.After) {
			generation++
		}
		w.put(action.After, "metadata.generation", fmt.Sprint(generation))
	case plan.Delete:
		if w.IntN(2) == 0 {
			delete(w.children, plan.KeyOf(action.Before))
			return
		}
		w.put(action.Before, "metadata.deletionTimestamp", `"2026-01-01T00:00:00Z"`)
	default:
		w.t.Fatalf("unexpected: %s", action)
	}
}

// put stores a child with some fields set, given as paths and values.
func (w *simulation) put(o *object.Object, fields ...string) {
	w.t.Helper()
	var edits []object.Edit
	for pair := range slices.Chunk(fields, 2) {
		edits = append(edits, object.Edit{Value: []byte(pair[1]), Path: strings.Split(pair[0], ".")})
	}
	edited := must.Get(o.Edited(edits...)).In(w.t)
	w.children[plan.KeyOf(edited)] = edited
}

// randomEvent changes something as other clients do.
func (w *simulation) randomEvent() {
	for _, child := range w.observed() {
		if child.Kind() != webs.Kind {
			continue
		}
		switch fate := w.IntN(12); {
		case child.Deleting():
			if fate < 6 {
				delete(w.children, plan.KeyOf(child))
			}
		case fate == 0:
			w.log("deleted by others: %s", child.Name())
			delete(w.children, plan.KeyOf(child))
		case fate == 1:
			w.log("edited by others: %s", child.Name())
			w.put(child, "spec.image", `"foreign"`, "metadata.generation", fmt.Sprint(child.Generation()+1))
		case fate < 9:
			w.setReady(child, w.IntN(6) > 0)
		}
	}
}

func (w *simulation) setReady(child *object.Object, ready bool) {
	status := "False"
	if ready && image(child) != "bad" {
		status = "True"
	}
	w.put(child, "status", fmt.Sprintf(`{"observedGeneration":%d,"conditions":[{"type":"Ready","status":%q}]}`, child.Generation(), status))
}

// Whatever happens, and wherever the controller crashes, in the end all children match the latest
// revision, and only that revision is left.
func TestRolloutsFinish(t *testing.T) {
	seeded(t, 12, func(t *testing.T, g generator) {
		w := newSimulation(t, g)
		for range 25 {
			if g.IntN(6) == 0 {
				w.edit()
			}
			w.randomEvent()
			if g.IntN(20) == 0 {
				w.log("the revisions are lost")
				clear(w.revisions)
			}
			w.lives = -1
			if g.IntN(3) == 0 {
				w.lives = g.IntN(5)
			}
			w.run()
			if t.Failed() {
				return
			}
		}
		w.lives = -1
		w.setParent(g.pick("a", "b", "c").(string), 4)
		for range 20 {
			w.run()
			for _, child := range w.observed() {
				if child.Deleting() {
					delete(w.children, plan.KeyOf(child))
				} else if child.Kind() == webs.Kind {
					w.setReady(child, true)
				}
			}
		}
		w.checkFinished()
	})
}

func (w *simulation) checkFinished() {
	w.t.Helper()
	if len(w.children) != 5 || len(w.revisions) != 1 || !w.progress.Done() {
		w.fail("it does not finish: %d children, %d revisions, %s", len(w.children), len(w.revisions), w.progress.Message)
	}
	for _, child := range w.children {
		if child.Kind() == webs.Kind && image(child) != image(w.parent) {
			w.fail("%s is left at %s", child.Name(), image(child))
		}
	}
	for _, r := range w.revisions {
		if plan.Annotation(r, claimsAnnotation) != "" {
			w.fail("the latest revision has claims")
		}
	}
}

// If no child of the latest revision becomes ready, no more than MaxUnavailable are moved to it.
func TestBrokenRevisionDoesNotSpread(t *testing.T) {
	seeded(t, 10, func(t *testing.T, g generator) {
		w := newSimulation(t, g)
		w.setParent("a", 4)
		for range 3 {
			w.run()
			for _, child := range w.observed() {
				w.setReady(child, true)
			}
		}
		w.setParent("bad", 4)
		for i := range 20 {
			w.lives = -1
			if g.IntN(3) == 0 {
				// Children that are deleted before the edit is seen are not protected.
				w.lives = g.IntN(5) + count(i == 0)
			}
			w.run()
			bad := 0
			for _, child := range w.observed() {
				bad += count(child.Kind() == webs.Kind && image(child) == "bad")
			}
			if bad > w.most {
				w.fail("%d children are at the broken revision; %d may be", bad, w.most)
				return
			}
			w.randomEvent()
		}
	})
}
