package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
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
			if value := now.Field(field); value != nil {
				o = must.Get(o.With(value, field)).In(w.t)
			}
		}
		all = append(all, string(o.JSON()))
	}
	return all
}

func (w *walk) create(text string) {
	o := parse(w.t, text)
	resource, _ := w.server.Resource(o.GroupKind())
	state, _, err := w.server.Send(w.state, "kubectl", apiserver.CreationOf(resource, o))
	must.Succeed(w.t, err)
	w.set(state)
}

// start starts the process with a list of what is stored.
func (w *walk) start() {
	if w.living != nil {
		w.living.Close()
	}
	w.coming, w.ended = nil, false
	view := loop.NewView(slices.Collect(w.state.Objects()), w.server.Resource)
	w.living = must.Get(loop.NewLiving(w.programs, w.options, view, w)).In(w.t)
}

// set makes a state the present one and sends its events.
func (w *walk) set(state *apiserver.State) {
	w.coming = append(w.coming, eventsBetween(w.server, w.state, state)...)
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
	now := w.state.Get(e.resource, "default", e.name)
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
		state, _, err = w.server.Send(w.state, "kubectl", apiserver.DeletionOf(e.resource, now, metav1.DeleteOptions{}))
	default:
		state, _, err = w.server.Send(w.state, "kubectl", apiserver.PatchOf(e.resource, now, "", e.patch))
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
		w.note("%s %s", change.Object, change.Name)
		w.set(change.State)
		return true
	}
	for o := range w.state.Objects() {
		if o.GroupKind() != pods.GroupKind() || o.Field("status", "conditions") != nil {
			continue
		}
		state, _, err := w.server.Send(w.state, "kubelet", apiserver.PatchOf(pods, o, "status", map[string]any{"status": map[string]any{
			"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}}))
		must.Succeed(w.t, err)
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
	for o := range w.state.Objects() {
		if o.Kind() != "ControllerRevision" {
			status := ofTheWay.ReplaceAllString(string(o.Field("status")), "")
			labels := ofTheWay.ReplaceAllString(string(o.Field("metadata", "labels")), "")
			lines = append(lines, fmt.Sprintf("%s %s labels=%s finalizers=%v spec=%s data=%s status=%s", o.Kind(), o.Name(), labels, o.Finalizers(),
				o.Field("spec"), o.Field("data"), status))
		}
	}
	return strings.Join(lines, "\n")
}

// The operators of TestWalks.

func walkRollingSet(t *testing.T) *walk {
	newRollingSet(t, loop.Options{Memo: rollouts})
	set := func(patch map[string]any) edit { return edit{rollingSets, "web", patch} }
	image := func(name string) map[string]any {
		return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": name}}}}}}
	}
	return &walk{
		server: rollingSet.server, programs: rollingSet.programs, seeds: []string{rollingSet.sample},
		edits: []edit{
			set(image("b")), set(image("c")), set(map[string]any{"spec": map[string]any{"replicas": 1}}), set(map[string]any{"spec": map[string]any{"replicas": 3}}),
			set(nil), {pods, "web-0", nil}, {pods, "web-1", map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "other"}}}},
		},
	}
}

const shared = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared","namespace":"default"},"data":{"x":"1"}}`

func dataOf(value string) map[string]any { return map[string]any{"data": map[string]any{"x": value}} }

func walkMirrors(t *testing.T) *walk {
	return &walk{
		server: newServer(t, []object.Resource{secrets, configMaps}), programs: loop.Programs{Compose: []composite.Program{mirrors(mirror)}},
		options: loop.Options{Resolve: resolve}, seeds: []string{aSecret, shared},
		edits: []edit{
			{configMaps, "shared", dataOf("2")}, {configMaps, "shared", dataOf("1")}, {configMaps, "mirror", dataOf("3")},
			{configMaps, "mirror", nil}, {configMaps, "shared", nil}, {secrets, "a", nil},
		},
	}
}

func walkCopies(t *testing.T) *walk {
	return &walk{
		server: newServer(t, []object.Resource{secrets, configMaps}), programs: loop.Programs{Handle: []handler.Program{copies(new([]string))}},
		seeds: []string{aSecret},
		edits: []edit{
			{secrets, "a", dataOf("Mg==")}, {secrets, "a", dataOf("MQ==")}, {secrets, "a", nil},
			{configMaps, "a", dataOf("other")}, {configMaps, "a", nil},
		},
	}
}

// decorator is inline code that has the functions of a decorator.
type decorator struct{ logic }

// Functions returns both.
func (decorator) Functions() []string { return []string{"sync", "finalize"} }

// decorate gives a Secret a label and a ConfigMap, and takes both away at the end.
func decorate(request map[string]any) map[string]any {
	if request["finalizing"] == true {
		return map[string]any{
			"labels": map[string]any{"badge": nil}, "attachments": []any{},
			"finalized": len(object.FieldAt(request, "attachments", "ConfigMap.v1").(map[string]any)) == 0,
		}
	}
	secret := request["object"].(map[string]any)
	badge := object.FieldAt(secret, "metadata", "annotations", "badge")
	return map[string]any{
		"labels": map[string]any{"badge": badge},
		"attachments": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"badge": badge},
			"metadata": map[string]any{"name": object.FieldAt(secret, "metadata", "name")},
		}},
	}
}

func walkBadges(t *testing.T) *walk {
	_, programs := opened(t, filepath.Join("testdata", "badges.yaml"), decorator{decorate})
	badge := func(value any) edit {
		return edit{secrets, "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"badge": value}}}}
	}
	final := badge("gold")
	return &walk{
		final: &final, server: newServer(t, []object.Resource{secrets, configMaps}), programs: programs,
		seeds: []string{`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"default","annotations":{"badge":"gold"}}}`},
		edits: []edit{
			badge("gold"), badge("silver"), badge(nil), {secrets, "a", nil}, {secrets, "a", dataOf("MQ==")},
			{configMaps, "a", map[string]any{"data": map[string]any{"badge": "tin"}}}, {configMaps, "a", nil},
		},
	}
}

// walkOneName is walkMirrors with a second parent that wants the same name.
func walkOneName(t *testing.T) *walk {
	w := walkMirrors(t)
	w.conflicting = true
	w.seeds = append(w.seeds, strings.Replace(aSecret, `"name":"a"`, `"name":"b"`, 1))
	w.edits = append(w.edits, edit{secrets, "b", nil}, edit{secrets, "b", dataOf("Mg==")})
	return w
}

var aliases = object.Resource{Group: "mutants.example.com", Version: "v1", Plural: "aliases", Kind: "Alias", Namespaced: true, Status: true, Custom: true}

const aliasCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"aliases.mutants.example.com"},
"spec":{"group":"mutants.example.com","scope":"Namespaced","names":{"kind":"Alias","plural":"aliases","singular":"alias"},"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"target":{"type":"string"},"other":{"type":"string"}}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// publish keeps one ConfigMap with the name that an alias wants. It fails for "none", after which something may be done.
func publish(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	var alias struct{ Spec struct{ Target string } }
	if err := json.Unmarshal(n.Object, &alias); err != nil {
		return nil, err
	}
	response := &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"target":%q}`, alias.Spec.Target)}
	if alias.Spec.Target == "none" {
		response.Err = errors.New("no such target")
		return response, nil
	}
	for _, o := range n.Owned[0].Objects {
		if o.Name != alias.Spec.Target {
			response.Delete = append(response.Delete, hook.Deletion{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name})
		}
	}
	wanted := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"x":"1"}}`, alias.Spec.Target)
	response.Apply = []hook.AppliedObject{{Object: wanted}}
	return response, nil
}

func walkAliases(t *testing.T) *walk {
	program := handler.Program{
		Name: "aliases", Rules: trigger.Rules{Resource: aliases, Finalizer: "aliases.example.com/finalizer", Handlers: []trigger.Handler{
			{
				Name: "publish", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}, Fields: [][]string{{"spec", "target"}},
				Do: hook.HandlerFunc(publish),
			},
			{Name: "release", On: []hook.Reason{hook.ReasonDelete}, Do: hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				return &hook.HandlerResponse{}, nil
			})},
		}, Record: lasthandled.Location{Annotation: "setpoint.dev/handled-by-aliases"}}, Owns: []object.Resource{configMaps}, Manager: "aliases",
	}
	target := func(name string) edit {
		return edit{aliases, "a", map[string]any{"spec": map[string]any{"target": name}}}
	}
	final := target("one") // "none" would be retried for ever.
	return &walk{
		final: &final, ifHas: `"target":"none"`, server: newServer(t, []object.Resource{configMaps}, parse(t, aliasCRD)), programs: loop.Programs{Handle: []handler.Program{program}},
		seeds: []string{`{"apiVersion":"mutants.example.com/v1","kind":"Alias","metadata":{"name":"a","namespace":"default"},"spec":{"target":"one"}}`},
		edits: []edit{
			target("one"), target("two"), target("none"), {aliases, "a", nil},
			{configMaps, "one", nil}, {configMaps, "two", dataOf("2")},
		},
	}
}
