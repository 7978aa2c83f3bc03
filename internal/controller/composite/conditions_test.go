package composite

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// conditionsOf returns the conditions of the shop, such as "Synced=True Synced 1".
func conditionsOf(t *testing.T, s *cluster) string {
	t.Helper()
	var status struct {
		Conditions []struct {
			Type, Status, Reason string
			ObservedGeneration   int
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(s.stored("shops/a", "status")), &status))
	var all []string
	for _, c := range status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s %d", c.Type, c.Status, c.Reason, c.ObservedGeneration))
	}
	return strings.Join(all, ", ")
}

func expectConditions(t *testing.T, s *cluster, want string) {
	t.Helper()
	if got := conditionsOf(t, s); got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}

var update = flag.Bool("update", false, "write what parents say into testdata/kstatus")

// checkGolden compares the parent with a file that TestKstatusOfParents reads. The file name begins
// with the status that kstatus computes.
func checkGolden(t *testing.T, s *cluster, name string) {
	t.Helper()
	s.mu.Lock()
	text, err := json.MarshalIndent(s.objects["shops/a"], "", "  ")
	s.mu.Unlock()
	must.Succeed(t, err)
	got := regexp.MustCompile(`"lastTransitionTime": "[^"]*"`).ReplaceAllString(string(text), `"lastTransitionTime": "2026-01-01T00:00:00Z"`) + "\n"
	path := filepath.Join("testdata", "kstatus", name+".json")
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(got), 0o644))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s: %v; go test -update writes it anew\ngot %s", path, err, got)
	}
}

const newShop = `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1},"spec":{}}`

var openShop = says(hook.Response{Status: json.RawMessage(`{"open":true}`), Children: []json.RawMessage{sign}})

// Fault G9: parents did not report a failing hook.
func TestParentConditions(t *testing.T) {
	s := newCluster(t, newShop)
	m := &statusHook{respond: openShop}
	shops := shopsOf(t, s, Program{Sync: m, Conditions: true, SyncOnStatusChange: true})
	step := func(what string, cause queue.CauseKind, wrote, says string) {
		t.Helper()
		shops.run(cause)
		s.expectWrites(t, wrote)
		expectConditions(t, s, says)
	}
	const well = "Synced=True Synced 1"
	step("created", queue.Start, "POST configmaps/sign, PUT shops/a/status", well)
	checkGolden(t, s, "Current.synced")
	step("resync", queue.Resync, "", well)

	m.err = errors.New("connection refused by 10.0.0.1:1234")
	step("failed", queue.Resync, "PUT shops/a/status", "Synced=False HookFailed 1, Reconciling=True HookFailed 1")
	checkGolden(t, s, "InProgress.failing")
	for i := range 20 {
		m.err = fmt.Errorf("connection refused by 10.0.0.1:%d", i)
		step("failed again", queue.Retrying, "", "Synced=False HookFailed 1, Reconciling=True HookFailed 1")
	}
	shops.clockOffset = stalledAfter
	step("stalled", queue.Retrying, "PUT shops/a/status", "Synced=False HookFailed 1, Stalled=True HookFailed 1")
	checkGolden(t, s, "Failed.stalled")
	step("stalled again", queue.Retrying, "", "Synced=False HookFailed 1, Stalled=True HookFailed 1")
	m.err = errors.New("no such host")
	step("failing for another reason", queue.Retrying, "PUT shops/a/status", "Synced=False HookFailed 1, Stalled=True HookFailed 1")
	if !strings.Contains(s.stored("shops/a", "status"), "no such host") || !strings.Contains(s.stored("shops/a", "status"), `"open":true`) {
		t.Error(s.stored("shops/a", "status"))
	}
	calls := m.calls
	m.err = nil
	step("recovered", queue.Retrying, "PUT shops/a/status", well)
	checkGolden(t, s, "Current.recovered")
	step("nothing new", queue.StatusChanged, "", well)
	if m.calls != calls+1 {
		t.Errorf("the hook was called %d times for conditions that are not its own", m.calls-calls-1)
	}
	for _, status := range m.seen {
		if strings.Contains(status, "conditions") {
			t.Errorf("shown %s", status)
		}
	}

	m.err = errors.New("no such host")
	step("failed", queue.Resync, "PUT shops/a/status", "Synced=False HookFailed 1, Reconciling=True HookFailed 1")
	shops.clockOffset = 2 * stalledAfter
	step("stalled", queue.Retrying, "PUT shops/a/status", "Synced=False HookFailed 1, Stalled=True HookFailed 1")
	again := shopsOf(t, s, Program{Sync: m, Conditions: true, SyncOnStatusChange: true})
	again.run(queue.Start)
	s.expectWrites(t, "")
	m.err = nil
	again.run(queue.Retrying)
	s.wrote()
	again = shopsOf(t, s, Program{Sync: m, Conditions: true, SyncOnStatusChange: true})
	again.run(queue.Start)
	s.expectWrites(t, "")
}

// A hook that needs more calls than one run makes returns a status in each. The conditions stay in
// place until the last one.
func TestParentConditionsBetweenSteps(t *testing.T) {
	s := newCluster(t, newShop)
	last := 1
	steps := hook.Func(func(_ context.Context, request *hook.Request) (*hook.Response, error) {
		response := &hook.Response{Status: json.RawMessage(`{"conditions":[{"type":"Open","status":"True"}]}`)}
		have := 0
		for _, group := range request.Children {
			have += len(group.Objects)
		}
		for i := range min(have+1, last) {
			response.Children = append(response.Children, fmt.Appendf(nil,
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sign-%d"}}`, i))
		}
		return response, nil
	})
	shops := shopsOf(t, s, Program{Sync: steps, Conditions: true, SyncOnStatusChange: true})
	shops.run(queue.Start)
	const well = "Open=True  0, Synced=True Synced 1"
	if got := conditionsOf(t, s); got != well {
		t.Fatalf("says %q, want %q", got, well)
	}
	last = 3 * maxPasses
	shops.run(queue.Resync)
	if n := strings.Count(s.wrote(), "POST configmaps/"); n < maxPasses-1 || n >= last {
		t.Fatalf("%d children in one run", n)
	}
	expectConditions(t, s, well)
}

// Fault M15: the status and the conditions of a parent belong to its older controller. Each
// controller owns its own children.
func TestOlderControllerOwnsTheStatus(t *testing.T) {
	selects := func(text string) []Selection {
		return []Selection{{Labels: selectorFor(t, text)}}
	}
	const ignored = "StatusIgnored: the status in the response of test is ignored: elder takes precedence for this object and stores its status"
	for name, c := range map[string]struct {
		owner  StatusOwner
		says   string
		wrote  string
		events string
	}{
		"all parents":          {StatusOwner{Name: "elder"}, `{"open":true}`, "POST configmaps/sign", ignored},
		"an empty status":      {StatusOwner{Name: "elder"}, `{}`, "POST configmaps/sign", ""},
		"other parents":        {StatusOwner{Name: "elder", Selections: selects("a=b")}, `{"open":true}`, "POST configmaps/sign, PUT shops/a/status", ""},
		"parents without it":   {StatusOwner{Name: "elder", Selections: selects("!a")}, `{"open":true}`, "POST configmaps/sign", ignored},
		"in its namespace":     {StatusOwner{Name: "elder", Namespace: "town"}, `{"open":true}`, "POST configmaps/sign", ignored},
		"in another namespace": {StatusOwner{Name: "elder", Namespace: "country"}, `{"open":true}`, "POST configmaps/sign, PUT shops/a/status", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, newShop)
			m := &statusHook{respond: says(hook.Response{Status: json.RawMessage(c.says), Children: []json.RawMessage{sign}})}
			shops := shopsOf(t, s, Program{Sync: m, Conditions: true, StatusOwners: []StatusOwner{c.owner}})
			shops.run(queue.Start)
			shops.run(queue.Resync)
			s.expectWrites(t, c.wrote)
			if got := strings.Join(shops.events, "; "); got != c.events {
				t.Errorf("events %q, want %q", got, c.events)
			}
			m.err = errors.New("no such host")
			shops.run(queue.Resync)
			if got := s.wrote(); strings.Contains(got, "status") != strings.Contains(c.wrote, "status") {
				t.Errorf("failing, it wrote %q", got)
			}
		})
	}
}

// Fault G9: the API server refuses the status of a response, and accepts the conditions.
func TestParentConditionsOfARefusedStatus(t *testing.T) {
	s := newCluster(t, newShop)
	refused := 0
	s.refuse = func(_, path string) int {
		refused++
		if strings.HasSuffix(path, "/status") && refused == 2 {
			return http.StatusUnprocessableEntity
		}
		return 0
	}
	shopsOf(t, s, Program{Sync: &statusHook{respond: openShop}, Conditions: true}).run(queue.Start)
	if got := conditionsOf(t, s); got != "Synced=False WriteFailed 1, Reconciling=True WriteFailed 1" || strings.Contains(s.stored("shops/a", "status"), "open") {
		t.Errorf("stored %s", s.stored("shops/a", "status"))
	}
}

// Fault G9: hooks that set conditions of the same types, or copy the status they get.
func TestParentConditionsBesideTheHooks(t *testing.T) {
	stalled := []hook.Condition{{Type: "Stalled", Status: "False", Reason: "Mine", Message: "mine"}}
	for name, c := range map[string]struct {
		says    func(int, *hook.Request) *hook.Response
		want    string
		failing string
	}{
		"replaces the status": {openShop, "Synced=True Synced 1", "Synced=False HookFailed 1, Reconciling=True HookFailed 1"},
		"copies what it is shown": {
			func(_ int, request *hook.Request) *hook.Response {
				shown := statusIn(request)
				if shown == nil {
					shown = json.RawMessage(`{"conditions":[{"type":"Ready","status":"True","reason":"R"}]}`)
				}
				return &hook.Response{Status: shown}
			},
			"Ready=True R 0, Synced=True Synced 1",
			"Ready=True R 0, Synced=False HookFailed 1, Reconciling=True HookFailed 1",
		},
		"has an empty list": {
			says(hook.Response{Status: json.RawMessage(`{"conditions":[]}`)}),
			"Synced=True Synced 1", "Synced=False HookFailed 1, Reconciling=True HookFailed 1",
		},
		"has one of these types in its status": {
			says(hook.Response{Status: json.RawMessage(`{"conditions":[{"type":"Synced","status":"False","reason":"Mine"}]}`)}),
			"Synced=False Mine 0", "Synced=False Mine 0, Reconciling=True HookFailed 1",
		},
		"has one among its conditions": {
			says(hook.Response{Conditions: stalled}),
			"Stalled=False Mine 1, Synced=True Synced 1", "Stalled=False Mine 1, Synced=False HookFailed 1, Reconciling=True HookFailed 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, newShop)
			m := &statusHook{respond: c.says}
			shops := shopsOf(t, s, Program{Sync: m, Conditions: true})
			shops.run(queue.Start)
			expectConditions(t, s, c.want)
			s.wrote()
			shops.run(queue.Resync)
			s.expectWrites(t, "")
			m.err = errors.New("no")
			shops.run(queue.Resync)
			expectConditions(t, s, c.failing)
			m.err = nil
			shops.run(queue.Retrying)
			expectConditions(t, s, c.want)
		})
	}
}

// Fault G9: failures that a retry cannot fix stall the parent at once. Controllers without
// conditions set none, and released parents keep none.
func TestParentConditionsWhenStalled(t *testing.T) {
	s := newCluster(t, newShop)
	m := &statusHook{err: &hook.TerminalError{Err: errors.New("no")}}
	shopsOf(t, s, Program{Sync: m, Conditions: true}).run(queue.Start)
	expectConditions(t, s, "Synced=False HookFailed 1, Stalled=True HookFailed 1")
	s = newCluster(t, newShop)
	shopsOf(t, s, Program{Sync: m}).run(queue.Start)
	s.expectWrites(t, "")
	const condition = `"status":{"conditions":[{"type":"Synced","status":"True","reason":"Synced"}]}`
	leaves := strings.Replace(strings.Replace(leaving, `"status":{"open":true}`, condition, 1), `"deletionTimestamp":"2026-01-01T00:00:00Z",`, "", 1)
	s = newCluster(t, leaves)
	m = &statusHook{respond: func(_ int, request *hook.Request) *hook.Response {
		return &hook.Response{Status: statusIn(request), Finalized: true}
	}}
	shopsOf(t, s, Program{Finalize: m, Sync: m, Conditions: true, Selections: []Selection{{Labels: selectorFor(t, "none=such")}}}).run(queue.Start)
	if got := conditionsOf(t, s); got != "" || m.calls != 1 || strings.Contains(s.stored("shops/a", "metadata"), "example.org/test") {
		t.Errorf("%d calls, says %q, stored %s", m.calls, got, s.stored("shops/a", "metadata"))
	}
}

// Fault G11: a dry run of a parent with held deletions reported it as Synced. It reports what a run
// stores.
func TestDryRunHasConditionsOfHeldParents(t *testing.T) {
	s := newCluster(t, newShop)
	m := &statusHook{respond: openShop}
	shops := shopsOf(t, s, Program{Sync: m, Conditions: true, DeletionLimit: &plan.DeletionLimit{}})
	shops.run(queue.Start)
	s.wrote()
	m.respond = says(hook.Response{Status: json.RawMessage(`{"open":false}`)})
	result, err := shops.DryRun(t.Context(), queue.Key{Namespace: "town", Name: "a"}, nil)
	if err != nil || len(result.Removals) != 1 || result.Held == nil || s.wrote() != "" {
		t.Fatalf("%d removals, %v", len(result.Removals), err)
	}
	if ran := shops.run(queue.Resync); controller.ReasonOf(ran.Err) != ReasonDeletionsHeld {
		t.Fatalf("ended with %v", ran.Err)
	}
	times := regexp.MustCompile(`"lastTransitionTime":"[^"]*"`)
	want := times.ReplaceAllString(s.stored("shops/a", "status"), "")
	if got := times.ReplaceAllString(string(result.Held.Field("status")), ""); got != want {
		t.Errorf("planned %s\nstored  %s", got, want)
	}
	if made := string(result.Parent.Field("status")); !strings.Contains(made, "up to date") {
		t.Errorf("if they are not held, it says %s", made)
	}
}

// Fault G9: parents did not report a failing hook. TestParentConditions writes the files, whose
// names begin with the expected status.
func TestKstatusOfParents(t *testing.T) {
	paths, err := filepath.Glob("testdata/kstatus/*.json")
	if err != nil || len(paths) < 4 {
		t.Fatalf("found %v, %v", paths, err)
	}
	for _, path := range paths {
		text := must.Get(os.ReadFile(path)).In(t)
		var parent unstructured.Unstructured
		if err := json.Unmarshal(text, &parent); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want, _, _ := strings.Cut(filepath.Base(path), ".")
		result, err := status.Compute(&parent)
		if err != nil || result.Status.String() != want {
			t.Errorf("%s: kstatus says %+v, %v", path, result, err)
		}
		if want != status.CurrentStatus.String() && !strings.Contains(string(text), result.Message) {
			t.Errorf("%s: %q is not what the parent says", path, result.Message)
		}
	}
}
