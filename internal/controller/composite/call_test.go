package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// A cause that requires a call counts even if it is not among the listed causes. So does a failure:
// its response was not applied.
func TestMustCall(t *testing.T) {
	var many []queue.Cause
	for i := range 20 {
		many = append(many, queue.Cause{Kind: queue.ChildChanged, Object: queue.Key{Name: strconv.Itoa(i)}})
	}
	quiet, some := &memory{}, &queue.Item{Causes: queue.NewCauses(many...)}
	if quiet.mustCall(some) {
		t.Error("children that changed demand nothing by themselves")
	}
	for _, kind := range forceCallCauses {
		if !quiet.mustCall(&queue.Item{Causes: queue.NewCauses(append(many, queue.Cause{Kind: kind})...)}) {
			t.Errorf("%s is lost among many causes", kind)
		}
	}
	quiet.Result.Failing = true
	if !quiet.mustCall(some) {
		t.Error("after a failure the hook must be called")
	}
}

// Faults M13 and S6: hooks whose responses to the same request differ were neither throttled nor
// reported.
func TestNondeterministicHooksAreReported(t *testing.T) {
	signed := func(text string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign","annotations":` + text + `},"data":{"cpu":"1000m"}}`)
	}
	for name, c := range map[string]struct {
		says func(call int) *hook.Response
		want string
	}{
		"an annotation": {func(call int) *hook.Response {
			return &hook.Response{Children: []json.RawMessage{signed(fmt.Sprintf(`{"at":"%d"}`, call))}}
		}, "differ in ConfigMap sign: metadata.annotations.at;"},
		"a quantity in another notation": {func(call int) *hook.Response {
			cpu := [...]string{"1", "1000m"}[call%2]
			return &hook.Response{Children: []json.RawMessage{signed(fmt.Sprintf(`{"a-cpu":%q,"at":"x%d"}`, cpu, call))}}
		}, "differ in ConfigMap sign: metadata.annotations.at;"},
		"a name": {func(call int) *hook.Response {
			return &hook.Response{Children: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign-%d"}}`, call))}}
		}, ": only in one response;"},
		"the status": {func(call int) *hook.Response {
			return &hook.Response{Status: json.RawMessage(fmt.Sprintf(`{"at":%d}`, call))}
		}, "differ in status.at;"},
		"a time in whole seconds": {func(int) *hook.Response {
			now := time.Now().Unix() // One time for both: a second may pass between.
			return &hook.Response{Status: json.RawMessage(fmt.Sprintf(`{"at":%d}`, now)), Children: []json.RawMessage{signed(fmt.Sprintf(`{"at":"%d"}`, now))}}
		}, "differ in ConfigMap sign: metadata.annotations.at;"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, newShop)
			b := &statusHook{respond: func(call int, _ *hook.Request) *hook.Response { return c.says(call) }}
			shops := shopsOf(t, s, Program{Sync: b, Conditions: true, SyncOnStatusChange: true})
			var ran record.Run
			for range 400 {
				if ran = shops.run(queue.Resync); ran.Err != nil {
					break
				}
				if strings.Contains(name, "seconds") {
					<-time.After(100 * time.Millisecond) // The response contains the time.
				}
			}
			if ran.Err == nil || !strings.Contains(ran.Err.Error(), c.want) || controller.ReasonOf(ran.Err) != ReasonConflicting {
				t.Fatalf("%v", ran.Err)
			}
			if says := conditionsOf(t, s); !strings.Contains(says, "Stalled=True Conflicting") {
				t.Error(says)
			}
			s.wrote()
			shops.run(queue.Retrying)
			if writes := len(strings.Split(s.wrote(), ", ")); writes > 3 {
				t.Errorf("%d writes in a retry", writes)
			}
		})
	}
}

// Hooks that work in steps, or depend on the status they get, are not reported.
func TestStepsAreDeterministic(t *testing.T) {
	s := newCluster(t, newShop)
	b := &statusHook{respond: func(_ int, request *hook.Request) *hook.Response {
		var signs []json.RawMessage
		for i := range min(len(request.Children[0].Objects)+1, 30) {
			signs = append(signs, json.RawMessage(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign-%d"}}`, i)))
		}
		return &hook.Response{Children: signs}
	}}
	shops := shopsOf(t, s, Program{Sync: b})
	shops.runTimes(6, queue.Retrying)
	if len(shops.events) > 0 || strings.Count(s.wrote(), "POST") != 30 {
		t.Errorf("%v", shops.events)
	}
}

// Fault S8: the hook was blamed for changes of another client.
func TestOtherClientsAreNotNondeterminism(t *testing.T) {
	s := newCluster(t, newShop)
	var shops *testController
	calls := 0
	b := hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		calls++
		if calls > 1 {
			s.mu.Lock()
			o := s.objects["configmaps/sign"]
			o["data"] = map[string]any{"a": fmt.Sprint(calls)}
			metadata := o["metadata"].(map[string]any)
			metadata["managedFields"] = []any{
				map[string]any{"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-01T00:00:01Z"},
				map[string]any{"manager": "older", "operation": "Update", "time": "2026-01-01T00:00:00Z"},
			}
			s.put("configmaps/sign", o)
			text, _ := json.Marshal(o)
			s.mu.Unlock()
			shops.observe(text)
		}
		return &hook.Response{Children: []json.RawMessage{sign}}, nil
	})
	shops = shopsOf(t, s, Program{Sync: b, Conditions: true})
	var ran record.Run
	for range 5 {
		if ran = shops.run(queue.ChildChanged); ran.Outcome == record.Failed {
			break
		}
	}
	if ran.Err == nil || controller.ReasonOf(ran.Err) != ReasonFlapping || !strings.Contains(ran.Err.Error(), "data.a differs") ||
		!strings.Contains(ran.Err.Error(), "the field manager kubectl-edit changes it") {
		t.Errorf("%v", ran.Err)
	}
	if says := conditionsOf(t, s); !strings.Contains(says, "Stalled=True Flapping") {
		t.Error(says)
	}
}

// Fault S6: a decorator that sets a time was called and wrote fifteen times a second. Each write
// looked like an edit, which retries a failure at once.
func TestNondeterministicDecoratorsAreReported(t *testing.T) {
	at := func(call int) map[string]*string {
		now := fmt.Sprint(call)
		return map[string]*string{"at": &now}
	}
	for name, c := range map[string]struct {
		says func(call int) *hook.Response
		want string
	}{
		"an annotation": {func(call int) *hook.Response { return &hook.Response{Annotations: at(call)} }, "differ in annotations.at;"},
		"a label":       {func(call int) *hook.Response { return &hook.Response{Labels: at(call)} }, "differ in labels.at;"},
	} {
		for kind, shop := range map[string]string{
			"with generations": newShop,
			"without":          strings.Replace(newShop, `"generation":1`, `"generation":0`, 1),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := newCluster(t, shop)
				b := &statusHook{respond: func(call int, _ *hook.Request) *hook.Response { return c.says(call) }}
				shops := shopsOf(t, s, Program{Sync: b, Mark: plan.Mark{Key: "d", Value: "d"}})
				before := shops.shop(t)
				ran := shops.run(queue.Start)
				if ran.Err == nil || !strings.Contains(ran.Err.Error(), c.want) || controller.ReasonOf(ran.Err) != ReasonConflicting {
					t.Fatalf("%v", ran.Err)
				}
				s.wrote()
				shops.run(queue.Retrying)
				s.expectWrites(t, "PUT shops/a")
				written := shops.shop(t)
				edited := must.Get(written.With([]byte(`{"tier":"gold"}`), "metadata", "labels")).In(t)
				for _, event := range []struct {
					old, now *object.Object
					want     queue.CauseKind
				}{
					{before, written, queue.Unspecified},
					{written, edited, queue.ParentChanged},
					{edited, written, queue.ParentChanged}, // Another client reverts the change.
				} {
					if cause := shops.causeOf(cache.Event{Old: event.old, New: event.now}); cause != event.want {
						t.Errorf("%s after %s is a cause %v, not %v", event.now.JSON(), event.old.JSON(), cause, event.want)
					}
				}
			})
		}
	}
}

// shop returns the shop a from the cache.
func (s *testController) shop(t *testing.T) *object.Object {
	t.Helper()
	for shop := range s.Managed() {
		return shop
	}
	t.Fatal("there is no shop")
	return nil
}

func TestConflictBackoff(t *testing.T) {
	var last time.Duration
	for failed := 1; failed < 20; failed++ {
		delay := conflictBackoff(failed)
		if delay < last || delay > maxDelay || last > 0 && last < maxDelay/2 && delay != 2*last {
			t.Errorf("%v after %v", delay, last)
		}
		last = delay
	}
	if last != maxDelay {
		t.Errorf("%v at last", last)
	}
}

// Values of a Secret as kind and as logicVersion leave in no other form: neither in small letters in the line that
// would declare the kind, nor in the state of the parent.
func TestSecretsAsKindAndVersion(t *testing.T) {
	const value = "N3w-Passw0rd-of-April"
	b := &statusHook{respond: says(hook.Response{LogicVersion: value, Children: []json.RawMessage{
		json.RawMessage(`{"apiVersion":"v1","kind":"` + value + `","metadata":{"name":"a"}}`),
		json.RawMessage(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"},"stringData":{"password":"` + value + `"}}`),
	}})}
	shops := shopsOf(t, newCluster(t, newShop), Program{Sync: b, Lenient: true})
	shops.runTimes(2, queue.Start)
	events := strings.Join(shops.events, "\n")
	if strings.Contains(strings.ToLower(events), strings.ToLower(value)) || !strings.Contains(events, "resource: "+redact.Mask+"s}") {
		t.Errorf("the events tell the value, or no line to add: %q", shops.events)
	}
	for _, state := range shops.ObjectStates() {
		if state.LogicVersion != redact.Mask {
			t.Errorf("logicVersion %s", state.LogicVersion)
		}
	}
}
