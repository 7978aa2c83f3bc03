package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// seedVariable has the seed of a failed scenario, to run it alone.
const seedVariable = "TEST_SEED"

// TestRandomScenarios runs random schedules of edits, errors, calls without a response,
// refused writes, lost connections, kills and restarts, and checks the guarantees of
// designs/0006, among them that only a change calls a handler: see callModel. It uses fake time, so that hours pass in a moment. Faults H1, H2, H3, H5, H7.
func TestRandomScenarios(t *testing.T) {
	first, n := rand.Uint64N(1_000_000), uint64(3)
	if given, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		first, n = given, 1
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			t.Logf("to run it alone: %s=%d go test ./internal/controller/handler -run TestRandomScenarios", seedVariable, seed)
			synctest.Test(t, func(t *testing.T) { newScenario(t, seed).play() })
		})
	}
}

// The handlers of a scenario, and their limits.
const (
	scenarioRetries = 3
	scenarioBackoff = 2 * time.Second
	scenarioTimer   = 7 * time.Second
)

func scenarioProgram(inStatus bool) Program {
	both, spec := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, [][]string{{"spec", "n"}}
	p := program(append([]trigger.Handler{
		{Name: "first", On: both, Fields: spec, Backoff: scenarioBackoff},
		{Name: "events", On: []hook.Reason{hook.ReasonEvent}},
		{Name: "limited", On: both, Fields: spec, Backoff: scenarioBackoff, Retries: scenarioRetries},
		{Name: "last", On: both, Fields: spec, Backoff: scenarioBackoff},
		{Name: "timer", Every: scenarioTimer, Backoff: scenarioBackoff},
		{Name: "delete", On: []hook.Reason{hook.ReasonDelete}, Fields: spec, Backoff: scenarioBackoff},
	}, changingHandlers()...)...)
	p.Owns = []object.Resource{configMaps}
	p.Writes = []permit.Write{{Resource: pods, Evict: true}}
	p.Conditions = true
	if p.Record.StatusKey = ""; inStatus {
		p.Record.StatusKey = "test"
	}
	return p
}

// scenario is one random run.
type scenario struct {
	t       *testing.T
	s       *server
	program Program
	model   *callModel

	mu  sync.Mutex
	rng *rand.Rand
	// noFaults stops the injection of faults.
	noFaults atomic.Bool
	// responses counts the responses, each of which has a number.
	responses int
	// edited is the latest spec.n of each object; it only grows.
	edited map[string]int
	past   map[string]lastCall
	calls  map[string][]time.Time
	// shown is the spec.n that event handlers saw last.
	shown map[string]int

	process *process
}

// lastCall describes the latest call of a handler for an object.
type lastCall struct {
	process *process
	n       int
	attempt int
	began   time.Time
	ended   time.Time
	err     error
	gaveUp  bool
	// failures counts the failed calls for n in a row. edited means that an edit brought a call of this
	// attempt forward.
	failures int
	edited   bool
}

// process is one process of the controller; dead means killed.
type process struct {
	*bubbleEnv

	scenario *scenario
	dead     atomic.Bool
}

var errLost = errors.New("connection lost")

func newScenario(t *testing.T, seed uint64) *scenario {
	sc := &scenario{
		t: t, s: newBubbleServer(t), model: newCallModel(t), program: scenarioProgram(seed%2 == 1), rng: rand.New(rand.NewPCG(seed, seed)),
		edited: map[string]int{}, past: map[string]lastCall{}, calls: map[string][]time.Time{}, shown: map[string]int{},
	}
	sc.s.admit = sc.admit
	sc.s.reject = func(_, path string, body map[string]any) int { return sc.refuses(path, body) }
	return sc
}

// chance returns true once in n times.
func (sc *scenario) chance(n int) bool { return !sc.noFaults.Load() && sc.random(n) == 0 }

func (sc *scenario) random(n int) int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.rng.IntN(n)
}

// admit checks each object before the server stores it. No write of a handler or of another
// client may be lost to a writer that did not see it.
func (sc *scenario) admit(path string, o map[string]any) {
	was := sc.s.objects[path]
	if !strings.Contains(path, "/rates/") {
		return
	}
	sc.model.stores(sc.s.version+1, was, o)
	if was == nil || field(was, "status", "by") == field(o, "status", "by") {
		return
	}
	if before, after := countIn(was), countIn(o); after != before+1 {
		sc.t.Errorf("a write was lost: %v wrote %d over %d of %v", field(o, "status", "by"), after, before, field(was, "status", "by"))
	}
}

// RoundTrip drops requests, responses, and watches at random.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	sc := p.scenario
	watches := r.URL.Query().Get("watch") == "true"
	if p.dead.Load() || sc.chance(30) {
		return nil, errLost
	}
	if !watches && !sc.noFaults.Load() {
		elapse(time.Duration(sc.random(20)) * time.Millisecond)
		if p.dead.Load() {
			return nil, errLost
		}
	}
	response, err := sc.s.RoundTrip(r)
	switch {
	case err != nil:
	case watches:
		go func() {
			for !sc.noFaults.Load() && r.Context().Err() == nil {
				elapse(time.Second)
				if sc.chance(20) {
					_ = response.Body.Close()
					return
				}
			}
		}()
	case p.dead.Load() || sc.chance(40):
		if r.Method != http.MethodGet {
			sc.model.unknown(r.URL.Path)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return nil, errLost
	}
	return response, err
}

// start starts a new process of the controller.
func (sc *scenario) start() {
	sc.process = &process{scenario: sc}
	do := map[string]handlerFunc{}
	for _, h := range sc.program.Handlers {
		p := sc.process
		do[h.Name] = func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return sc.handle(ctx, p, n)
		}
		if _, changes := sc.model.changes[h.Name]; changes {
			do[h.Name] = func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				return sc.handleChanging(p, n)
			}
		}
	}
	sc.program.Handlers = slices.Clone(sc.program.Handlers)
	sc.process.bubbleEnv = startEnv(sc.s, sc.program, sc.process, do)
}

// handle is the function of all handlers: it checks the call, and responds or fails at random.
func (sc *scenario) handle(ctx context.Context, p *process, n *hook.HandlerRequest) (response *hook.HandlerResponse, err error) {
	o := object.DecodeOrEmpty(n.Object)
	number := int(intIn(o, "spec", "n"))
	key := n.Handler + " " + n.Name + " " + text(field(o, "metadata", "uid"))
	call := lastCall{process: p, n: number, attempt: n.Attempt, began: time.Now()}
	sc.check(key, n, call)
	defer func() {
		call.ended, call.err = time.Now(), err
		if met := recover(); met != nil {
			call.err = errors.New("panicked")
			sc.recordCall(key, n, call)
			panic(met)
		}
		if response == nil && err == nil {
			call.err = errors.New("ended")
		}
		if ctx.Err() == nil {
			sc.recordCall(key, n, call)
		}
	}()
	if sc.chance(4) {
		elapse(time.Duration(sc.random(3000)) * time.Millisecond)
	}
	if !sc.noFaults.Load() {
		if response, err, fails := sc.fail(); fails {
			return response, err
		}
	}
	return sc.respond(n, o, number), nil
}

// fail makes a call fail at random.
func (sc *scenario) fail() (*hook.HandlerResponse, error, bool) { //nolint:revive // The bool comes last.
	switch sc.random(14) {
	case 0:
		return nil, errors.New("not today"), true
	case 1:
		return nil, &hook.UnreachableError{Err: errLost}, true
	case 2:
		panic("not today")
	case 3:
		runtime.Goexit()
	}
	return nil, nil, false
}

// respond returns a response that increments the count.
func (sc *scenario) respond(n *hook.HandlerRequest, o map[string]any, number int) *hook.HandlerResponse {
	sc.mu.Lock()
	sc.responses++
	by := fmt.Sprintf("%s %d", n.Handler, sc.responses)
	if n.Reason == hook.ReasonEvent {
		sc.shown[n.Name] = number
	}
	sc.mu.Unlock()
	if n.Reason == hook.ReasonEvent && sc.random(2) == 0 || n.Reason == hook.ReasonDelete {
		return &hook.HandlerResponse{}
	}
	status := map[string]any{"by": by, "count": countIn(o) + 1, n.Handler: number}
	if sc.chance(8) {
		status["refused"] = by
	}
	response := &hook.HandlerResponse{Status: json.RawMessage(text(status))}
	if sc.chance(6) {
		response.RetryAfter = time.Duration(1+sc.random(5)) * time.Second
	}
	return response
}

func intIn(o map[string]any, path ...string) int64 {
	n, _ := field(o, path...).(int64)
	return n
}

// check reports the errors of a call.
func (sc *scenario) check(key string, n *hook.HandlerRequest, now lastCall) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	was, known := sc.past[key]
	if n.Reason == hook.ReasonUpdate || n.Reason == hook.ReasonCreate {
		sc.checkPace(key, now)
	}
	if !known || was.process != now.process || n.Reason == hook.ReasonEvent {
		return
	}
	gap := now.began.Sub(was.ended)
	switch {
	case n.Handler == "timer":
		if was.err == nil && n.Attempt == 0 && now.began.Sub(was.began) < scenarioTimer && !was.gaveUp {
			sc.t.Errorf("%s: called %s after the call before", key, now.began.Sub(was.began))
		}
		return
	case was.n != now.n:
		return
	case was.gaveUp:
		sc.t.Errorf("%s: called for n=%d again, after it gave up", key, now.n)
	case n.Handler == "limited" && n.Attempt > scenarioRetries:
		sc.t.Errorf("%s: retry %d of %d", key, n.Attempt, scenarioRetries)
	case was.err != nil && n.Attempt != was.attempt+1 && (!was.edited || n.Attempt != was.attempt):
		sc.t.Errorf("%s: attempt %d after a failed attempt %d", key, n.Attempt, was.attempt)
	}
	if least := min(scenarioBackoff<<max(was.failures-1, 0), trigger.UnreachableDelay); was.err != nil && gap < least {
		sc.t.Errorf("%s: retry %d after %s, want at least %s", key, n.Attempt, gap, least)
	}
}

// checkPace reports calls for changes that are too frequent.
func (sc *scenario) checkPace(key string, now lastCall) {
	const window = 10 * time.Second
	recent := slices.DeleteFunc(append(sc.calls[key], now.began), func(at time.Time) bool { return now.began.Sub(at) > window })
	sc.calls[key] = recent
	if len(recent) > trigger.Burst+int(window/trigger.Refill)+trigger.MaxEvents {
		sc.t.Errorf("%s: %d calls within %s", key, len(recent), window)
	}
}

func (sc *scenario) recordCall(key string, n *hook.HandlerRequest, call lastCall) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	was := sc.past[key]
	if call.edited = call.n != was.n || was.edited && call.attempt > 0; call.err != nil {
		call.failures = 1
		if was.n == call.n && was.process == call.process {
			call.failures += was.failures
		}
	}
	call.gaveUp = n.Handler == "limited" && call.err != nil && call.attempt == scenarioRetries && !call.edited
	if n.Handler == "timer" {
		// A requested call is made before the next scheduled one.
		call.gaveUp = true
	}
	sc.past[key] = call
}

// play runs the schedule and checks the result.
func (sc *scenario) play() {
	sc.start()
	for range 60 {
		sc.step()
		elapse(time.Duration(sc.random(4000)) * time.Millisecond)
	}
	sc.noFaults.Store(true)
	for _, name := range scenarioNames {
		sc.collect(name, true)
	}
	for elapse(10 * time.Second); sc.deleting(); {
		elapse(trigger.LongestDelay)
	}
	for name := range sc.edited {
		sc.edit(name)
		sc.collect(name, true)
	}
	elapse(30 * time.Minute)
	sc.checkFinalState()
	sc.checkChanges()
	sc.process.stop()
}

// deleting reports whether an object waits for its Delete handler, which may be in a long backoff.
func (sc *scenario) deleting() bool {
	return slices.ContainsFunc(scenarioNames, func(name string) bool {
		o := sc.s.get(rates, name)
		return o != nil && field(o, "metadata", "deletionTimestamp") != nil
	})
}

var scenarioNames = []string{"a", "b", "c"}

// step takes one random step.
func (sc *scenario) step() {
	name := scenarioNames[sc.random(len(scenarioNames))]
	switch sc.random(15) {
	case 0, 1, 2, 3:
		sc.edit(name)
	case 4:
		if sc.s.get(rates, name) != nil {
			sc.s.edit(rates, name, fmt.Sprintf(`{"metadata":{"labels":{"x":"%d"}}}`, sc.random(10)))
		}
	case 5, 6:
		sc.increment(name)
	case 7:
		sc.s.drop(rates, name)
	case 8:
		sc.restart(true)
	case 9:
		sc.restart(false)
	case 10:
		sc.process.RetryWrites()
	case 11:
		for range 3 * trigger.Burst {
			sc.edit(name)
			elapse(10 * time.Millisecond)
		}
	case 12, 13, 14:
		sc.disturb(name)
	}
}

// edit creates an object or changes its spec.
func (sc *scenario) edit(name string) {
	sc.mu.Lock()
	sc.edited[name]++
	n := sc.edited[name]
	sc.mu.Unlock()
	if sc.s.get(rates, name) == nil {
		sc.s.create(rates, name, fmt.Sprintf(`{"spec":{"n":%d}}`, n))
		return
	}
	sc.s.edit(rates, name, fmt.Sprintf(`{"spec":{"n":%d}}`, n))
}

// increment writes as another client.
func (sc *scenario) increment(name string) {
	sc.mu.Lock()
	sc.responses++
	by := fmt.Sprint("user ", sc.responses)
	sc.mu.Unlock()
	sc.s.set(func() {
		path := pathOf(rates, name)
		if have := sc.s.objects[path]; have != nil {
			sc.s.put(path, object.MergePatch(have, map[string]any{"status": map[string]any{"by": by, "count": float64(countIn(have) + 1)}}))
		}
	})
}

// restart ends the process, without a shutdown if killed, and starts another.
func (sc *scenario) restart(killed bool) {
	sc.process.dead.Store(killed)
	sc.process.stop()
	sc.checkThrottleEvents()
	sc.start()
}

// checkThrottleEvents checks that each throttled object has an event.
func (sc *scenario) checkThrottleEvents() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	received := sc.process.eventLines()
	for key, calls := range sc.calls {
		name := strings.Fields(key)[1]
		says := func(e string) bool { return strings.HasPrefix(e, name+" "+trigger.ReasonConflicting) }
		if len(calls) > trigger.Burst+10 && !slices.ContainsFunc(received, says) {
			sc.t.Errorf("%s: %d calls in a row and no event", key, len(calls))
		}
	}
	clear(sc.calls)
}

// checkFinalState checks the objects after all faults have stopped.
func (sc *scenario) checkFinalState() {
	sc.checkThrottleEvents()
	if h := sc.process.Health(); h.Conflicting > 0 || h.Queue.Queued()+h.Queue.Active > 0 {
		sc.t.Errorf("not at rest: %+v", h)
	}
	for name, n := range sc.edited {
		o := sc.s.get(rates, name)
		if o == nil {
			sc.t.Errorf("%s: there is none", name)
			continue
		}
		recorded := sc.process.program.HandledStateOf(parse(sc.t, text(o)))
		for _, handler := range []string{"first", "limited", "last"} {
			if got := field(o, "status", handler); got != float64(n) || recorded[handler].Digest == "" || recorded[handler].Failed {
				sc.t.Errorf("%s: %s handled %v, want %d; recorded %+v", name, handler, got, n, recorded[handler])
			}
		}
		if sc.shown[name] != n {
			sc.t.Errorf("%s: the handler of events was last shown %d, want %d", name, sc.shown[name], n)
		}
		if field(o, "metadata", "deletionTimestamp") != nil {
			sc.t.Errorf("%s: is still being deleted", name)
		}
		if c := conditionsOf(o); strings.Contains(c, `"False"`) {
			sc.t.Errorf("%s: %s", name, c)
		}
	}
}
