package composite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// What a run failed because of: a version is not to blame for the parent, for other clients and for the API server.
func TestBlame(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want router.Blame
	}{
		"the hook":      {hookFailure("sync", errors.New("broken")), router.Version},
		"for good":      {hookFailure("sync", &hook.TerminalError{Err: errors.New("broken")}), router.VersionForGood},
		"its selector":  {failure.WithReason(ReasonInvalidParent, errors.New("broken")), router.Parent},
		"another one":   {failure.WithReason(ReasonFlapping, errors.New("broken")), router.Elsewhere},
		"revisions":     {failure.WithReason(ReasonRolloutFailed, errors.New("broken")), router.Elsewhere},
		"no API server": {failure.WithReason(controller.ReasonWriteFailed, errors.New("broken")), router.Elsewhere},
		"deletions":     {failure.WithReason(ReasonDeletionsHeld, errors.New("broken")), router.DeletionGuard},
	} {
		if got := blameFor(fmt.Errorf("run: %w", c.err)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// maxFlakes is how many failures in a row may be over after a retry.
const maxFlakes = 2

// brokenHook fails, as often as it says; 0 for always.
type brokenHook struct{ times, calls int }

func (b *brokenHook) Call(context.Context, *hook.Request) (*hook.Response, error) {
	b.calls++
	if b.times == 0 || b.calls <= b.times {
		return nil, errors.New("broken")
	}
	return &hook.Response{}, nil
}

// rollingOut returns the controller of a shop whose hook is broken, and was less so in the version before.
func rollingOut(t *testing.T, failuresBefore int) *testController {
	t.Helper()
	s := newCluster(t, newShop)
	previous := hook.Hook(&brokenHook{times: failuresBefore})
	if failuresBefore == 0 {
		previous = &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{} }}
	}
	return shopsOf(t, s, Program{Version: "v2", Sync: &brokenHook{}, Previous: &controller.Logic{Version: "v1", Sync: previous}})
}

// failsSinceItMoved reports whether the shop counts as one that fails since it moved.
func (s *testController) failsSinceItMoved() bool {
	return s.Router.ObservedOf(s.Get(queue.Key{Namespace: "town", Name: "a"})).Failed == 1
}

// A parent whose previous version had failed once, for whatever reason, is not excused from failing with the new one.
// One that had failed for good is, also after more failures.
func TestParentsThatFailedBefore(t *testing.T) {
	for failuresBefore, want := range map[int]bool{0: true, 1: true, maxFlakes: true, maxFlakes + 1: false} {
		s := rollingOut(t, failuresBefore)
		s.runTimes(max(failuresBefore, 1), queue.Start)
		s.Router.Assignment.SetPosition(rollout.End)
		s.runTimes(maxFlakes+2, queue.LogicChanged)
		if got := s.failsSinceItMoved(); got != want {
			t.Errorf("after %d failures of the version before, it fails since it moved: %v, want %v", failuresBefore, got, want)
		}
	}
}

// A rollout that is started again at once after a rollback finds the same failures.
func TestFailuresAfterARollbackCountAgain(t *testing.T) {
	s := rollingOut(t, 0)
	s.run(queue.Start)
	for range 2 {
		s.Router.Assignment.SetPosition(rollout.End)
		s.runTimes(maxFlakes+1, queue.LogicChanged)
		if !s.failsSinceItMoved() {
			t.Error("a parent that fails does not count")
		}
		s.Router.Assignment.SetPosition(0)
	}
}

// A child that the API server fails to store stops the rollout if only the new version has it.
func TestFailuresOfWritesBeforeTheMove(t *testing.T) {
	for name, c := range map[string]struct {
		previous   hook.Hook
		reconciled int
		blocked    string
	}{
		"in both versions":       {makes(sign), 1, ""},
		"in the new version":     {makes(), 0, "Shop town/a: "},
		"another one in the old": {&brokenHook{}, 0, "Shop town/a: "},
	} {
		s := newCluster(t, newShop)
		s.refuse = func(_, path string) int {
			if strings.HasPrefix(path, "configmaps") {
				return http.StatusInternalServerError
			}
			return 0
		}
		shops := shopsOf(t, s, Program{Version: "v2", Sync: makes(sign), Previous: &controller.Logic{Version: "v1", Sync: c.previous}})
		shops.runTimes(maxFlakes+1, queue.Start)
		shops.Router.Assignment.SetPosition(rollout.End)
		shops.runTimes(maxFlakes+1, queue.LogicChanged)
		got := shops.Router.ObservedOf(shops.Get(queue.Key{Namespace: "town", Name: "a"}))
		if got.Reconciled != c.reconciled || !strings.HasPrefix(got.Blocked, c.blocked) || (got.Blocked == "") != (c.blocked == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A run that fails before it calls the hook must not keep the shadow waiting for its comparison.
func TestShadowDoesNotWaitForUnreadableRevisions(t *testing.T) {
	r := rollingRun(t, nil)
	r.program.Version, r.program.Previous = "v2", &controller.Logic{Version: "v1", Sync: hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		t.Error("the hook is called")
		return &hook.Response{}, nil
	})}
	r.logic = *r.program.Previous
	r.Router = r.newRouter(Dependencies{})
	r.Router.Assignment.SetShadow(true, 1)
	r.family.revisions = []*object.Object{parsed(t, `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"x","namespace":"town",
		"annotations":{"setpoint.dev/controller":"shops","setpoint.dev/children":"{"}},"revision":1}`)}
	err := r.callHook(t.Context())
	if err == nil {
		t.Fatal("the revision can be read")
	}
	r.Router.Ended(r.routed(), &router.End{Outcome: record.Failed, Err: err})
	var state record.ObjectState
	r.Router.Describe(r.Stored, &state)
	if len(state.Shadow) == 0 {
		t.Error("it waits")
	}
}

// Before the caches have synced, such as after a restart, a rollout must not take the parents for none.
func TestRolloutKnowsNothingBeforeItRuns(t *testing.T) {
	s := rollingOut(t, 0)
	if o := s.Rollout(); !o.Unknown {
		t.Errorf("%+v", o)
	}
}

// An edit of a parent from before it moved does not explain what the new version deletes: that is what the guard is
// for.
func TestAnEditBeforeTheMoveExplainsNoDeletion(t *testing.T) {
	s := newCluster(t, newShop)
	shops := shopsOf(t, s, Program{
		Version: "v2", Sync: makes(), Previous: &controller.Logic{Version: "v1", Sync: makes(sign)}, DeletionLimit: &plan.DeletionLimit{},
	})
	shops.run(queue.Start)
	remembered, _ := shops.Memories.Get(queue.Key{Namespace: "town", Name: "a"}, "u-a")
	remembered.(*memory).edits.At = time.Now()
	shops.Router.Assignment.SetPosition(rollout.End)
	if ran := shops.run(queue.LogicChanged); controller.ReasonOf(ran.Err) != ReasonDeletionsHeld || s.stored("configmaps/sign", "data") == "" {
		t.Errorf("the child is deleted: %v", ran.Err)
	}
}

// selectingHook selects ConfigMaps as related objects, and counts how many of its calls overlap.
type selectingHook struct{ active, overlaps, calls atomic.Int32 }

func (h *selectingHook) Customize(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	if h.active.Add(1) > 1 {
		h.overlaps.Add(1)
	}
	return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "configmaps"}}}, nil
}

func (h *selectingHook) Call(context.Context, *hook.Request) (*hook.Response, error) {
	h.calls.Add(1)
	h.active.Add(-1)
	return &hook.Response{}, nil
}

// Comparisons of a parent do not overlap, and leave no related objects behind, even if the parent is deleted or the
// shadow ends meanwhile.
func TestComparisonsLeaveNoRelatedObjects(t *testing.T) {
	s, after := newCluster(t, newShop), &selectingHook{}
	before := &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{} }}
	shops := shopsOf(t, s, Program{Version: "v2", Sync: after, Customize: after, Previous: &controller.Logic{Version: "v1", Sync: before}})
	shops.comparedRelated = related.New(related.Options{
		Store: shops.Store, Scope: shops.program.Scope, Enqueue: func(queue.Key, *object.Object) {},
		Resolve: func(context.Context, string, string) (object.Resource, error) { return signs, nil },
	})
	shops.Router = shops.newRouter(Dependencies{})
	key := queue.Key{Namespace: "town", Name: "a"}
	ended := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for on := true; ; on = !on {
			select {
			case <-ended:
				return
			default:
				shops.Router.Assignment.SetShadow(on, 1000)
				shops.Router.Drop(key)
			}
		}
	})
	for deadline := time.Now().Add(time.Minute); after.calls.Load() < 20 && time.Now().Before(deadline); {
		shops.run(queue.LogicCompared)
	}
	close(ended)
	others.Wait()
	shops.Drop(key)
	shops.Router.Wait()
	if after.calls.Load() == 0 || after.overlaps.Load() > 0 {
		t.Errorf("%d of %d comparisons overlap with another one", after.overlaps.Load(), after.calls.Load())
	}
	if reads := shops.comparedRelated.Reads(key); len(reads) > 0 {
		t.Errorf("it still reads %+v", reads)
	}
}

// A other parent of fault H1: a response to one parent ended the backoff of all others, even of those
// with an error from the hook.
func TestRecoveryRetriesUnreachableParents(t *testing.T) {
	none, wrong := controller.Result{Failing: true, HookFailing: true, Unreachable: true}, controller.Result{Failing: true, HookFailing: true}
	for name, c := range map[string]outageCase{
		"a response after no response":  {previous: none, retries: true},
		"an error after no response":    {previous: none, now: wrong, retries: true},
		"a response after an error":     {previous: wrong},
		"no response after no response": {previous: none, now: none},
		"a response after a response":   {},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { c.check(t) }) })
	}
}

// outageCase is how the run of one parent ended, and how the previous one did.
type outageCase struct {
	previous, now controller.Result
	// retries means that unreachable parents are retried.
	retries bool
}

func (c outageCase) check(t *testing.T) {
	t.Helper()
	base := newTestBase(nil)
	q, m := base.Queue, base.Memories
	defer q.Close()
	waits := map[bool]queue.Key{true: {Name: "without a response"}, false: {Name: "with an error"}}
	for unanswered, key := range waits {
		m.SetResult(key, memoryFor(m, key), controller.Result{Failing: true, HookFailing: true, Unreachable: unanswered}, false)
		q.Add(key, queue.Cause{Kind: queue.Start})
		item, _ := q.Next(t.Context())
		q.Done(item.Key, queue.RetryIn(time.Hour))
	}
	<-time.After(time.Minute)
	key := queue.Key{Name: "subject"}
	r := &run{writes: &writes{Controller: &Controller{Base: base}, Run: &controller.Run{Item: queue.Item{Key: key}}, memory: memoryFor(m, key)}}
	m.SetResult(key, r.memory, c.previous, false)
	r.recordResult(c.now, false)
	if ended := q.RetryKeysNow([]queue.Key{waits[true]}) == 0; ended != c.retries {
		t.Errorf("the wait of the parent without a response is over: %v", ended)
	}
	if q.RetryKeysNow([]queue.Key{waits[false]}) == 0 {
		t.Error("the wait of the parent that got an error is over")
	}
}

func memoryFor(m *controller.Memories, key queue.Key) *memory {
	of, _ := m.Get(key, "u")
	return of.(*memory)
}
