package loop_test

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// TestADryRunSaysWhatTheNextRunWrites compares dry runs with the runs that follow, in random states: what stands after
// the planned writes is what stands when the run has called its hook once and written.
func TestADryRunSaysWhatTheNextRunWrites(t *testing.T) {
	for name, operator := range map[string]func(*testing.T) *walk{
		"rolling set": walkRollingSet, "mirrors": walkMirrors, "one name": walkOneName, "badges": walkBadges,
		"copies": walkCopies, "aliases": walkAliases,
	} {
		t.Run(name, func(t *testing.T) {
			compared, writing := 0, 0
			for seed := range uint64(60) {
				d := newDryWalk(t, operator(t), seed)
				d.play()
				compared, writing = compared+d.compared, writing+d.writing
			}
			t.Logf("%d states, %d with writes", compared, writing)
			if compared < 200 || writing < 100 {
				t.Errorf("only %d states, %d with writes", compared, writing)
			}
		})
	}
}

// dryWalk is a walk of processes that end after each run.
type dryWalk struct {
	*walk
	*world

	// compared counts the runs that were compared, writing those that write.
	compared, writing int
}

func newDryWalk(t *testing.T, w *walk, seed uint64) *dryWalk {
	w.t, w.rng, w.state = t, rand.New(rand.NewPCG(seed, 0)), w.server.Empty()
	return &dryWalk{walk: w, world: newWorld(t, w.server, w.programs, w.options, w.seeds...)}
}

func (d *dryWalk) play() {
	for range 60 {
		switch choice := d.rng.IntN(8); {
		case choice == 0:
			d.change(func() { d.edit() })
		case choice == 1:
			d.change(func() { d.move() })
		case choice < 4 && len(d.items) > 0:
			item := d.items[0]
			d.items = d.items[1:]
			d.compare(item)
		case len(d.events) > 0:
			d.world.deliver()
		case d.rng.IntN(10) == 0:
			d.restart()
		}
	}
}

// change lets the walk change what is stored in the world.
func (d *dryWalk) change(do func()) {
	d.walk.state = d.world.state
	do()
	d.world.set(d.walk.state)
}

// compare compares the dry run of an item with its run.
func (d *dryWalk) compare(item loop.Item) {
	t := d.world.t
	t.Helper()
	before := d.world.state
	at := len(d.world.trace)
	planned, dryErr := d.process.DryRun(t.Context(), d.view, item, &sender{server: d.world.server, state: before, reads: t})
	first, end := d.runOnce(item, planned.Handled)
	if first == nil || planned.Stored == nil {
		return // The cache was behind, or the parent is gone.
	}
	after, ok := d.applied(before, planned.Plan)
	if !ok {
		return
	}
	d.compared++
	if !planned.Plan.Empty() {
		d.writing++
	}
	parent := planned.Stored.Ref()
	if got, want := d.others(after, parent), d.others(first, parent); got != want {
		t.Fatalf("%s: planned\n%s\nwhich leads to\n%s\nbut the run leads to\n%s\n%s", item.Key, planned.Plan, got, want,
			strings.Join(d.world.trace[at:], "\n"))
	}
	if planned.Plan.Empty() && (dryErr != nil) != (end.Err != nil) {
		t.Fatalf("%s: planned the error %v, and the run ends with %v", item.Key, dryErr, end.Err)
	}
	resource, _ := d.world.server.Resource(parent.GroupKind())
	now, stored := before.Get(resource, parent.Namespace, parent.Name), first.Get(resource, parent.Namespace, parent.Name)
	if !planned.Handled && (dryErr != nil || !planned.Plan.Empty()) || now == nil || now.Version() != planned.Stored.Version() {
		return // The status comes later, or the cache is behind.
	}
	if got, want := described(planned.After), described(stored); got != want {
		t.Fatalf("%s: planned the object\n%s\nand the run stores\n%s\n%s", item.Key, got, want, strings.Join(d.world.trace[at:], "\n"))
	}
}

// described says what is stored of a parent; empty if it is gone.
func described(o *object.Object) string {
	if o == nil || o.Deleting() && len(o.Finalizers()) == 0 {
		return ""
	}
	return ofTheWay.ReplaceAllString(string(o.Field("spec"))+string(o.Field("data"))+string(o.Field("metadata", "labels"))+string(o.Field("metadata", "annotations"))+
		strings.Join(o.Finalizers(), ",")+string(o.Field("status")), "")
}

// runOnce runs an item to its end. It returns what is stored then, or for a composite before its hook is called a second
// time; nil if the cache was behind.
func (d *dryWalk) runOnce(item loop.Item, handled bool) (first *apiserver.State, end *loop.End) {
	t := d.world.t
	run := loop.Run{Item: item, View: d.view}
	behind, calls := false, 0
	for range 100 {
		step := d.process.Step(t.Context(), run)
		if step.Err != nil {
			t.Fatal(step.Err)
		}
		now := len(slices.DeleteFunc(slices.Clone(step.Calls), func(c loop.Call) bool { return strings.HasSuffix(c.Hook, " customize") }))
		if first == nil && (step.End != nil || !handled && calls > 0 && now > calls) {
			first = d.world.state
		}
		calls = now
		d.view = d.view.Observe(step.Writes...)
		d.add(step.Queued...)
		if step.End != nil {
			d.world.end(item, step.End)
			if behind {
				first = nil
			}
			return first, step.End
		}
		response := d.do(step.Request)
		behind = behind || first == nil && response.Code >= 400
		run.Exchanges = append(run.Exchanges, loop.Exchange{Request: *step.Request, Response: response})
	}
	t.Fatalf("%s: a run with 100 requests", item.Key)
	return nil, nil
}

// applied returns what is stored after a plan, and whether the API server has accepted all of it.
func (d *dryWalk) applied(before *apiserver.State, p plan.Plan) (after *apiserver.State, ok bool) {
	send := &sender{server: d.world.server, state: before}
	writer := must.Get(loop.NewWriter(send)).In(d.world.t)
	for _, result := range writer.ApplyPlan(d.world.t.Context(), p) {
		if result.Err != nil {
			return nil, false
		}
	}
	return send.state, true
}

// sender sends requests to a state of the API server.
type sender struct {
	server *apiserver.Server
	state  *apiserver.State
	// reads is the test if there must be no writes.
	reads testing.TB
}

// RoundTrip sends a request.
func (s *sender) RoundTrip(r *http.Request) (response *http.Response, err error) {
	if s.reads != nil && r.Method != http.MethodGet {
		s.reads.Errorf("a dry run sends %s %s", r.Method, r.URL)
	}
	s.state, response = s.server.Do(s.state, r)
	return response, nil
}

// wayOfObjects are the fields that depend on the way to them.
var wayOfObjects = regexp.MustCompile(`"(resourceVersion|uid|generation)":("[^"]*"|\d+),?`)

// others describes all objects but the parent.
func (d *dryWalk) others(state *apiserver.State, parent object.Ref) string {
	var lines []string
	for o := range state.Objects() {
		if o.Ref().Identity() != parent.Identity() {
			lines = append(lines, o.Kind()+" "+o.Name()+" "+wayOfObjects.ReplaceAllString(string(o.JSON()), ""))
		}
	}
	return strings.Join(lines, "\n")
}
