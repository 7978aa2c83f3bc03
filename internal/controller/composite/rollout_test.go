package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

var webs = object.Resource{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true, Status: true, Custom: true}

func parsed(t *testing.T, format string, args ...any) *object.Object {
	t.Helper()
	return must.Get(object.Parse(fmt.Appendf(nil, format, args...))).In(t)
}

func shopOf(t *testing.T, image string) *object.Object {
	t.Helper()
	return parsed(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"s","namespace":"town","uid":"s-uid","generation":1},"spec":{"image":%q}}`, image)
}

func webOf(name, image string) string {
	return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Web","metadata":{"name":%q},"spec":{"image":%q}}`, name, image)
}

// rollingRun returns a run in the middle of a rollout from a to b: w0 is updated, w1 and w2 are
// not.
func rollingRun(t *testing.T, h hook.Func) *run {
	t.Helper()
	c := &Controller{
		program: Program{
			Name: "shops", Parent: customStalls, Sync: h, LastApplied: "last",
			Children: plan.Rules{{Resource: webs, Method: plan.RollingInPlace}},
		},
		Base:      newTestBase(nil),
		revisions: &cache.View{},
	}
	c.Router = c.newRouter(Dependencies{})
	key := queue.Key{Namespace: "town", Name: "s"}
	r := c.newRun(c.NewRun(queue.Item{Key: key}, shopOf(t, "a")))
	r.planner.Selector = labels.Everything()
	r.family.byKind = [][]*object.Object{{}}
	r.simulateStoredRevisions(t)

	r.Stored = shopOf(t, "b")
	r.status.wanted, r.planner.Parent = r.Stored, r.Stored
	for i, image := range []string{"b", "a", "a"} {
		r.family.byKind[0] = append(r.family.byKind[0], r.storedChild(t, webOf(fmt.Sprint("w", i), image)))
	}
	r.simulateStoredRevisions(t)
	return r
}

// simulateStoredRevisions takes the planned revisions as stored.
func (r *run) simulateStoredRevisions(t *testing.T) {
	t.Helper()
	must.Succeed(t, r.loadRevisions())
	var claims []rolling.Claims
	for _, previous := range r.rollout.history.Previous {
		claims = append(claims, previous.Claims)
	}
	p := must.Get(r.rollout.history.Writes(claims)).In(t)
	kept := r.family.revisions[:0]
	for _, stage := range p.Stages {
		for _, action := range stage {
			kept = append(kept, action.After)
		}
	}
	r.family.revisions = kept
}

// storedChild returns a child as it is stored.
func (r *run) storedChild(t *testing.T, child string) *object.Object {
	t.Helper()
	desired, _, err := r.planner.Desired([]json.RawMessage{json.RawMessage(child)})
	must.Succeed(t, err)
	p := must.Get(r.planner.Changes(nil, desired, nil)).In(t)
	return p.Stages[0][0].After
}

// webHook returns three children with the parent's image, unless it has another response for it.
type webHook struct {
	mu        sync.Mutex
	calls     []string
	responses map[string]func(*hook.Response) error
}

func (h *webHook) call(_ context.Context, req *hook.Request) (*hook.Response, error) {
	var parent struct{ Spec struct{ Image string } }
	if err := json.Unmarshal(req.Parent, &parent); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, parent.Spec.Image)
	response := &hook.Response{Finalized: true}
	for i := range 3 {
		response.Children = append(response.Children, json.RawMessage(webOf(fmt.Sprint("w", i), parent.Spec.Image)))
	}
	if change := h.responses[parent.Spec.Image]; change != nil {
		if err := change(response); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// plannedRollout runs the steps up to the plan.
func (r *run) plannedRollout(t *testing.T) plan.Plan {
	t.Helper()
	must.Succeed(t, r.callHook(t.Context()))
	return must.Get(r.buildPlan()).In(t)
}

func TestHookIsCalledForEachRevision(t *testing.T) {
	h := &webHook{responses: map[string]func(*hook.Response) error{
		"a": func(response *hook.Response) error {
			response.ResyncAfter, response.Finalized = time.Second, false
			return nil
		},
		"b": func(response *hook.Response) error { response.ResyncAfter = time.Minute; return nil },
	}}
	r := rollingRun(t, h.call)
	p := r.plannedRollout(t)
	if got := strings.Join(h.calls, ""); got != "ab" && got != "ba" {
		t.Errorf("called for %s", got)
	}
	if got, want := p.String(), "1. update Web town/w1: spec.image differs\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.rollout.todo.String(); !strings.HasPrefix(got, "1. update ControllerRevision town/shops.example.org-") {
		t.Errorf("got %s", got)
	}
	if r.response.ResyncAfter != time.Second || r.response.Finalized {
		t.Errorf("got %v, %v", r.response.ResyncAfter, r.response.Finalized)
	}
	if r.updatedChildren != 1 {
		t.Errorf("%d moved", r.updatedChildren)
	}
}

// Fault U1: each request is recorded with its revision.
func TestRequestsAreRecordedWithTheirRevision(t *testing.T) {
	r := rollingRun(t, (&webHook{}).call)
	r.Record = record.New(record.Run{}, time.Now)
	r.plannedRollout(t)
	of := map[record.Revision]string{}
	for _, step := range r.Record.Finish(record.Synced).Steps {
		if step.Call != nil {
			of[record.Revision{Number: step.Call.Revision.Number, Previous: step.Call.Revision.Previous}] = step.Call.Revision.Name
		}
	}
	latest, previous := of[record.Revision{Number: 2}], of[record.Revision{Number: 1, Previous: true}]
	if len(of) != 2 || latest != r.rollout.history.Latest.Name || previous != r.rollout.history.Previous[0].Name {
		t.Errorf("recorded %v", of)
	}
}

// If the hook fails for a previous revision, its children stay as they are, the rollout continues,
// and the failure is reported.
func TestFormerRevisionFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*hook.Response) error
		want   string
	}{
		"with an error":        {func(*hook.Response) error { return errors.New("no such image") }, ": no such image"},
		"with no kind of ours": {func(response *hook.Response) error { response.Children[1] = []byte(`{"kind":"Pod"}`); return nil }, "children[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &webHook{responses: map[string]func(*hook.Response) error{"a": c.change}}
			r := rollingRun(t, h.call)
			r.family.byKind[0][2] = r.storedChild(t, webOf("w2", "spoilt"))
			if got, want := r.plannedRollout(t).String(), "1. update Web town/w1: spec.image differs\n"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			err := r.rollout.err
			if err == nil || !strings.Contains(err.Error(), "former revision shops.example.org-") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLatestRevisionFails(t *testing.T) {
	h := &webHook{responses: map[string]func(*hook.Response) error{"b": func(*hook.Response) error { return errors.New("broken") }}}
	if err := rollingRun(t, h.call).callHook(t.Context()); err == nil || err.Error() != "sync hook: broken" {
		t.Errorf("got %v", err)
	}
}

// The condition replaces one of the hook. Stored conditions that are not in the response are
// dropped.
func TestProgressIsACondition(t *testing.T) {
	const before = `{"conditions":[{"type":"Old","status":"True"},{"type":"Updated","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`
	for status, want := range map[string]string{
		"":        "Updated=False",
		`{"n":1}`: "Updated=False",
		`{"conditions":[{"type":"Ready","status":"True"}]}`:                                    "Ready=True Updated=False",
		`{"conditions":[{"type":"Updated","status":"Mine"},{"type":"Ready","status":"True"}]}`: "Updated=False Ready=True",
	} {
		h := &webHook{responses: map[string]func(*hook.Response) error{"b": func(response *hook.Response) error {
			if status != "" {
				response.Status = json.RawMessage(status)
			}
			return nil
		}}}
		r := rollingRun(t, h.call)
		r.status.wanted = must.Get(r.Stored.With([]byte(before), "status")).In(t)
		r.plannedRollout(t)
		var got struct {
			Conditions []struct{ Type, Status, Reason, LastTransitionTime string }
		}
		must.Succeed(t, json.Unmarshal(r.status.wanted.Field("status"), &got))
		var text []string
		for _, c := range got.Conditions {
			text = append(text, c.Type+"="+c.Status)
			if c.Type == ConditionUpdated && (c.Reason != rolling.RolloutProgressing || c.LastTransitionTime != "2026-01-01T00:00:00Z") {
				t.Errorf("%s: got %+v", status, c)
			}
		}
		if strings.Join(text, " ") != want {
			t.Errorf("%s: got %s, want %s", status, text, want)
		}
	}
}

// A parent that is being deleted is not rolled out, and no revision is written for it.
func TestFinalizingMovesNoChild(t *testing.T) {
	h := &webHook{}
	r := rollingRun(t, h.call)
	r.logic.Finalize, r.Phase = hook.Func(h.call), controller.PhaseFinalizing
	if p := r.plannedRollout(t); !p.Empty() || !r.rollout.todo.Empty() {
		t.Errorf("got %s%s", r.rollout.todo, p)
	}
	if len(h.calls) != 2 || !r.response.Finalized {
		t.Errorf("asked about %v, finalized: %v", h.calls, r.response.Finalized)
	}
}
