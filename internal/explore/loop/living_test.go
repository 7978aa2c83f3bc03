package loop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// seedVariable has the seed of a failed walk, to repeat it alone. walksVariable is how many walks there are.
const (
	seedVariable  = "TEST_SEED"
	walksVariable = "TEST_WALKS"
)

// TestWalks runs processes that keep their memory between runs through random schedules of events, edits, faults and
// ends of the process. Searches lose the memory: backoffs, what needs no call or comparison, what waits for a name,
// flapping, undelivered responses. Time is fake.
func TestWalks(t *testing.T) {
	first, walks := rand.Uint64N(1_000_000), 20
	if given, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		first, walks = given, 1
	}
	if given, err := strconv.Atoi(os.Getenv(walksVariable)); err == nil {
		walks = given
	}
	for name, operator := range map[string]func(*testing.T) *walk{
		"rolling set": walkRollingSet, "mirrors": walkMirrors, "one name": walkOneName, "copies": walkCopies, "aliases": walkAliases, "badges": walkBadges,
	} {
		t.Run(name, func(t *testing.T) {
			prepared := operator(t)
			for seed := first; seed < first+uint64(walks); seed++ {
				synctest.Test(t, func(t *testing.T) {
					w := *prepared
					w.t, w.rng = t, rand.New(rand.NewPCG(seed, 0))
					w.play()
					if t.Failed() {
						t.Fatalf("to repeat it: %s=%d go test ./internal/explore/loop -run 'TestWalks/%s'\n%s", seedVariable, seed,
							strings.ReplaceAll(name, " ", "_"), strings.Join(w.trace, "\n"))
					}
				})
			}
		})
	}
}

// walk is a process in a world whose every choice is random.
type walk struct {
	t        *testing.T
	server   *apiserver.Server
	programs loop.Programs
	options  loop.Options
	// seeds are the objects of users, edits are what they may do.
	seeds []string
	edits []edit
	// final is the last edit, if there is one, and if what is stored has a text.
	final *edit
	ifHas string
	// conflicting means that where it ends depends on the way, and that objects fail and are retried there.
	conflicting bool

	rng    *rand.Rand
	state  *apiserver.State
	living *loop.Living
	// coming are the events on their way.
	coming []loop.Event
	// end ends the context of the current run; ended means that the process has ended in the middle of it.
	end   context.CancelFunc
	ended bool
	// calm means that there are no more edits, faults and ends.
	calm  bool
	trace []string
}

// edit is what a user does: a merge patch of an object, which is created again if it is gone, or its deletion.
type edit struct {
	resource object.Resource
	name     string
	patch    map[string]any
}

func (w *walk) chance(n int) bool { return !w.calm && w.rng.IntN(n) == 0 }

func (w *walk) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// play walks, and compares where it ends with where a new process ends, and another one that sees the final specs only.
func (w *walk) play() {
	w.begin(w.seeds)
	for range 10 + w.rng.IntN(100) {
		w.step()
	}
	if w.final != nil && strings.Contains(w.describe(), w.ifHas) {
		w.make(*w.final)
	}
	w.calm = true
	w.note("no more edits and faults")
	w.settle()
	if failing := w.living.Failing(); failing > 0 && !w.conflicting {
		w.t.Errorf("%d objects fail at rest", failing)
	}
	end := w.describe()
	w.note("restart")
	w.start()
	w.settle()
	if again := w.describe(); again != end {
		w.t.Errorf("at rest:\n%s\nafter a restart:\n%s", end, again)
	}
	w.living.Close()
	if w.conflicting {
		return
	}
	other := *w
	other.trace = nil
	other.begin(w.kept())
	other.settle()
	if direct := other.describe(); direct != end {
		w.t.Errorf("at rest:\n%s\nwith the same specs from the beginning:\n%s", end, direct)
	}
	other.living.Close()
}

// begin creates objects and starts the process.
func (w *walk) begin(objects []string) {
	w.state, w.living = w.server.Empty(), nil
	for _, text := range objects {
		w.create(text)
	}
	w.start()
}

// kept returns the objects of users as they are.
func (w *walk) kept() []string {
	var all []string
	for _, text := range w.seeds {
		o := parse(w.t, text)
		resource, _ := w.server.Resource(o.GroupKind())
		now := w.state.Get(resource, o.Namespace(), o.Name())
		if now == nil {
			continue
		}
		for _, field := range []string{"spec", "data"} {
			var err error
			if value := now.Field(field); value != nil {
				if o, err = o.With(value, field); err != nil {
					w.t.Fatal(err)
				}
			}
		}
		all = append(all, string(o.JSON()))
	}
	return all
}

func (w *walk) create(text string) {
	o := parse(w.t, text)
	resource, _ := w.server.Resource(o.GroupKind())
	state, _, err := w.server.As("kubectl").Create(w.state, resource, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.set(state)
}

// start starts the process with a list of what is stored.
func (w *walk) start() {
	if w.living != nil {
		w.living.Close()
	}
	w.coming, w.ended = nil, false
	var err error
	if w.living, err = loop.NewLiving(w.programs, w.options, loop.NewView(w.state.All()), w); err != nil {
		w.t.Fatal(err)
	}
}

// set makes a state the present one and sends its events.
func (w *walk) set(state *apiserver.State) {
	for _, e := range apiserver.Events(w.state, state) {
		if e.New == nil {
			w.coming = append(w.coming, loop.Event{Resource: e.Old.Resource(), Object: e.Old.Object, Deleted: true})
			continue
		}
		w.coming = append(w.coming, loop.Event{Resource: e.New.Resource(), Object: e.New.Object})
	}
	w.state = state
}

// step does one thing at random.
func (w *walk) step() {
	switch w.rng.IntN(6) {
	case 0:
		w.edit()
	case 1:
		w.move()
	case 2:
		w.wait(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	case 3:
		w.run()
	default:
		w.deliver()
	}
}

// settle lets everything happen that is to come.
func (w *walk) settle() {
	waits := 0
	for range 1000 {
		switch {
		case len(w.coming) > 0:
			w.deliver()
		case w.living.Queued() > 0:
			w.run()
		case w.move():
		default:
			// Delays may end.
			w.wait(time.Hour)
			waits++
			if len(w.coming)+w.living.Queued() == 0 || w.conflicting && waits > 3 {
				return
			}
		}
	}
	w.t.Error("it does not come to rest")
}

func (w *walk) wait(delay time.Duration) {
	<-time.After(delay) // Time is fake.
	synctest.Wait()
}

// deliver delivers the next event of a kind.
func (w *walk) deliver() {
	if len(w.coming) == 0 {
		return
	}
	at := w.rng.IntN(len(w.coming))
	at = slices.IndexFunc(w.coming, func(e loop.Event) bool { return e.Resource == w.coming[at].Resource })
	e := w.coming[at]
	w.coming = slices.Delete(w.coming, at, at+1)
	w.note("event %s %s deleted=%v", e.Object.Ref(), e.Object.ResourceVersion(), e.Deleted)
	w.living.Deliver(e)
}

// run reconciles an item. If the process ends meanwhile, another one starts.
func (w *walk) run() {
	if w.living.Queued() == 0 {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	w.end = end
	w.living.Run(ctx, func(what string) { w.note("run %s", what) })
	if w.ended {
		w.start()
	}
}

// edit makes an edit of a user.
func (w *walk) edit() {
	if w.calm {
		return
	}
	w.make(w.edits[w.rng.IntN(len(w.edits))])
}

// make makes an edit. An object of users that is gone is created again.
func (w *walk) make(e edit) {
	client, now := w.server.As("kubectl"), w.state.Get(e.resource, "default", e.name)
	var state *apiserver.State
	var err error
	switch {
	case now == nil:
		for _, text := range w.seeds {
			if o := parse(w.t, text); o.Kind() == e.resource.Kind && o.Name() == e.name {
				w.note("create %s", o.Ref())
				w.create(text)
			}
		}
		return
	case e.patch == nil:
		state, _, err = client.Delete(w.state, e.resource, now, metav1.DeleteOptions{})
	default:
		state, _, err = client.Patch(w.state, e.resource, now, "", e.patch)
	}
	w.note("edit %s %s %v: %v", e.resource.Plural, e.name, e.patch, err)
	if err == nil {
		w.set(state)
	}
}

// move is a step of the garbage collector or of a pod, if one can be made.
func (w *walk) move() bool {
	if changes := w.server.Collect(w.state); len(changes) > 0 {
		change := changes[w.rng.IntN(len(changes))]
		w.note("%s", change.What)
		w.set(change.State)
		return true
	}
	for of, o := range w.state.All() {
		if of.GroupKind() != pods.GroupKind() || o.Field("status", "conditions") != nil {
			continue
		}
		state, _, err := w.server.As("kubelet").Patch(w.state, pods, o, "status", map[string]any{"status": map[string]any{
			"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.note("%s is ready", o.Name())
		w.set(state)
		return true
	}
	return false
}

var errEnded = errors.New("the process has ended")

// RoundTrip handles a request, after or before much else.
func (w *walk) RoundTrip(r *http.Request) (*http.Response, error) {
	for w.chance(2) {
		w.deliver()
	}
	if w.chance(8) {
		w.edit()
	}
	if w.ended || r.Context().Err() != nil {
		return nil, errEnded
	}
	if w.chance(12) {
		w.note("the process ends before %s %s", r.Method, r.URL.Path)
		w.ended = true
		w.end()
		return nil, errEnded
	}
	if r.Method != http.MethodGet && w.chance(6) {
		return w.fail(r)
	}
	state, response := w.server.Do(w.state, r)
	w.note("%s %s %d", r.Method, r.URL.Path, response.StatusCode)
	w.set(state)
	if w.chance(12) {
		w.note("the process ends")
		w.ended = true
		w.end()
	}
	return response, nil
}

// fail fails a request: the API server has refused or handled it, or the response is lost.
func (w *walk) fail(r *http.Request) (*http.Response, error) {
	code := [...]int{http.StatusConflict, http.StatusInternalServerError, 0}[w.rng.IntN(3)]
	w.note("%s %s fails: %d", r.Method, r.URL.Path, code)
	if code == 0 {
		state, response := w.server.Do(w.state, r)
		w.set(state)
		_ = response.Body.Close() // The response is lost.
		return nil, errors.New("connection reset")
	}
	reason := map[int]string{http.StatusConflict: "Conflict", http.StatusInternalServerError: "InternalError"}[code]
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"injected","code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// ofTheWay are the labels and the fields of a status that depend on the way to them.
var ofTheWay = regexp.MustCompile(`"(lastTransitionTime|observedGeneration|controller-uid)":("[^"]*"|\d+),?`)

// describe says what is stored, without what differs from one way to another.
func (w *walk) describe() string {
	var lines []string
	for of, o := range w.state.All() {
		if of.Kind != "ControllerRevision" {
			status := ofTheWay.ReplaceAllString(string(o.Field("status")), "")
			labels := ofTheWay.ReplaceAllString(string(o.Field("metadata", "labels")), "")
			lines = append(lines, fmt.Sprintf("%s %s labels=%s finalizers=%v spec=%s data=%s status=%s", of.Kind, o.Name(), labels, o.Finalizers(),
				o.Field("spec"), o.Field("data"), status))
		}
	}
	return strings.Join(lines, "\n")
}
