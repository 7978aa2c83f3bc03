// Package playback makes the steps of stories once more: for a timeline, and on a real API server beside the one in memory, to
// compare what each step does.
package playback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Cluster is a real API server on which a story is replayed, in namespaces of its own.
type Cluster interface {
	// Begin makes an empty namespace for each of the names.
	Begin(ctx context.Context, names []string) (namespaces map[string]string, err error)
	// Do sends a request, of which only the path, the query, the header and the body count. Schedulers leave its pods
	// alone.
	Do(ctx context.Context, r *http.Request) (*http.Response, error)
	// End removes what was created since Begin.
	End(ctx context.Context) error
}

// ClusterReplay is what became of a story on a cluster.
type ClusterReplay struct {
	explore.Replayed

	// Made is how many steps the cluster did as the exploration, of those of the story.
	Made int
	// Later is how many steps after those of the story lead to the state of rest that violates the property. They are
	// made in memory only.
	Later int
	// Difference says which step it did otherwise; empty for none.
	Difference string
}

// errElsewhere is the error of a server that knows no models of kinds.
var errElsewhere = errors.New("the story was not explored with an API server in memory")

// ReplayOn makes the steps of a story in memory and, if it still violates its property, on a cluster. The same loops
// send their requests to the real API server and read from it; each step is compared with what it does in memory.
func ReplayOn(ctx context.Context, options explore.Options, story counterexample.Story, cluster Cluster) (*ClusterReplay, error) {
	return explore.Guarded(func() (*ClusterReplay, error) { return followOn(ctx, options, story, cluster) })
}

func followOn(ctx context.Context, options explore.Options, story counterexample.Story, cluster Cluster) (*ClusterReplay, error) {
	inMemory, err := explore.Replay(ctx, options, story)
	if err != nil {
		return nil, err
	}
	r := &ClusterReplay{Replayed: *inMemory, Later: len(inMemory.Steps) - len(story.Steps)}
	if !r.Violated {
		return r, nil
	}
	if err := story.FitsCluster(); err != nil {
		return nil, err
	}
	ways := [][]counterexample.StoryStep{story.Steps}
	if len(story.Other) > 0 {
		ways = append(ways, story.Other)
	}
	for _, way := range ways {
		if r.Difference != "" {
			break
		}
		if err := r.goWay(ctx, options, story, way, cluster); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// goWay makes steps in memory and on the cluster, both in namespaces of the cluster, and compares them.
func (r *ClusterReplay) goWay(ctx context.Context, options explore.Options, story counterexample.Story, way []counterexample.StoryStep,
	cluster Cluster) (err error) {
	namespaces, err := cluster.Begin(ctx, story.Namespaces())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.End(ctx)) }()
	texts := way
	if story, err = story.In(namespaces, way); err != nil {
		return err
	}
	t, err := newTwin(ctx, options, &story, cluster)
	if err != nil {
		return err
	}
	for i := range story.Steps {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		difference, err := t.step(i)
		if err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, texts[i].Text, err)
		}
		if difference != "" {
			r.Difference = fmt.Sprintf("Step %d differs on the cluster: %s\n%s", i+1, texts[i].Text, difference)
			return nil
		}
		r.Made++
	}
	if r.Later == 0 {
		r.Difference = t.compareEnd(story.Property)
	}
	return nil
}

// twin makes the steps of a story on a cluster, beside what they do in memory.
type twin struct {
	story  *counterexample.Story
	memory *state.Worker
	// states are those in memory, before and after each step.
	states []state.State
	server *realServer
	// worker and at are the processes and the state on the cluster.
	worker *state.Worker
	at     state.State
	broken []property.Finding
}

// newTwin makes all steps in memory, and stores the objects on the cluster.
func newTwin(ctx context.Context, options explore.Options, story *counterexample.Story, cluster Cluster) (*twin, error) {
	kinds, is := options.Server.(kindServer)
	if !is {
		return nil, errElsewhere
	}
	options.Unrenamed = true
	memory, initial, err := explore.Begin(options, story)
	if err != nil {
		return nil, err
	}
	t := &twin{story: story, memory: memory}
	var stopped string
	if t.states, stopped = walk(ctx, memory, initial, story.Steps); stopped != "" {
		return nil, fmt.Errorf("in the namespaces of the cluster, %s", stopped)
	}
	t.server = &realServer{ctx: ctx, cluster: cluster, kinds: kinds, pairs: &pairs{}}
	options.Server, options.Environment = t.server, t.server
	t.worker, t.at, err = explore.Begin(options, story)
	if err = errors.Join(err, t.server.err); err != nil {
		return nil, fmt.Errorf("store the objects of the story on the cluster: %w", err)
	}
	t.server.pairs.add(initial.Stored, t.at.Stored)
	return t, nil
}

// step makes a step on the cluster. It returns what differs from what it does in memory.
func (t *twin) step(i int) (difference string, err error) {
	before, after := t.states[i], t.states[i+1]
	pending := &pendingStep{StoryStep: t.story.Steps[i], changed: t.memory.Changes(before.Stored, after.Stored)}
	if err := t.addWrites(pending, before); err != nil {
		return "", err
	}
	t.server.step = pending
	if difference := t.otherRequest(before, &pending.Action); difference != "" {
		return difference, nil
	}
	made := t.worker.ExpandTo(t.at, &pending.Action)
	if err := errors.Join(t.server.err, t.worker.Err); err != nil {
		return "", err
	}
	if len(made) == 0 {
		return "it cannot happen: the cluster is in another state", nil
	}
	t.at = made[0].To
	t.broken = append(t.broken, made[0].Findings...)
	t.server.pairs.add(after.Stored, t.at.Stored)
	if difference := t.otherResponse(before, &pending.Action); difference != "" {
		return difference, nil
	}
	return strings.Join(t.server.pairs.differences(pending.changed, t.at.Stored.Raw()), "\n"), nil
}

// addWrites adds the requests of a step of another controller.
func (t *twin) addWrites(pending *pendingStep, before state.State) error {
	if pending.Step != world.Proceed {
		return nil
	}
	for _, m := range t.memory.Environment.Moves(before.Stored.Raw()) {
		if m.Name == pending.Name && m.Object.Identity() == pending.Object.Identity() {
			pending.writes, pending.manager = m.Writes, m.Manager
			return nil
		}
	}
	return fmt.Errorf("no model has the step %q", pending.Name)
}

// otherRequest compares what a run requests on the cluster with what it requests in memory.
func (t *twin) otherRequest(before state.State, a *world.Action) string {
	expected, got := before.RequestOf(a), t.at.RequestOf(a)
	if expected == nil || got == nil {
		return ""
	}
	path := func(r *state.Request) string {
		target, _, _ := strings.Cut(r.Target, "?")
		return r.Method + " " + target
	}
	if path(expected) == path(got) {
		return ""
	}
	return fmt.Sprintf("expected: Setpoint requests %s\ngot:      %s", path(expected), path(got))
}

// otherResponse compares the codes of the responses to a request.
func (t *twin) otherResponse(before state.State, a *world.Action) string {
	r := before.RequestOf(a)
	if r == nil || a.Step != world.Send {
		return ""
	}
	expected, got := t.memory.Do(before.Stored, r).Response, t.server.response
	if expected.Code == got.Code {
		return ""
	}
	return fmt.Sprintf("expected: %s responds %s\ngot:      %s", state.DescribeRequest(&r.Request, expected), codeAndMessage(expected),
		codeAndMessage(got))
}

func codeAndMessage(r loop.Response) string {
	if message := phrase.Message(r.Body); message != "" {
		return fmt.Sprintf("%d: %s", r.Code, message)
	}
	return strconv.Itoa(r.Code)
}

// compareEnd returns why an invariant is not violated on the cluster; empty if it is, or if the property follows from
// the steps.
func (t *twin) compareEnd(p property.Property) string {
	if slices.Contains(property.Properties, p) {
		return ""
	}
	all := slices.Concat(t.broken, t.worker.Broken(t.at.Stored, true), t.worker.Broken(t.at.Stored, false))
	if slices.ContainsFunc(all, func(f property.Finding) bool { return f.Property == p }) {
		return ""
	}
	return fmt.Sprintf("All steps are the same on the cluster, but %q is not violated there.", p)
}

// Step is a step of a story, what it changed, and what the API server has after it.
type Step struct {
	counterexample.StoryStep

	Changes []Change
	Objects []*object.Object
}

// Change is a change of an object. Before is nil if it was created, After if it is gone.
type Change struct {
	Object        object.Ref
	Before, After *object.Object
}

// Timeline makes the steps of a story, and of the way to the other end if it has one. It returns those that are possible.
func Timeline(ctx context.Context, options explore.Options, story counterexample.Story) ([][]Step, error) {
	return explore.Guarded(func() (ways [][]Step, err error) {
		options.Unrenamed = true
		w, initial, err := explore.Begin(options, &story)
		if err != nil {
			return nil, err
		}
		for _, steps := range [][]counterexample.StoryStep{story.Steps, story.Other} {
			if len(steps) > 0 {
				states, _ := walk(ctx, w, initial, steps)
				ways = append(ways, timelineOf(w, states, steps))
			}
		}
		return ways, errors.Join(w.Err, ctx.Err())
	})
}

// walk makes steps from a state. It returns the states before and after them, and why it stopped.
func walk(ctx context.Context, w *state.Worker, from state.State, steps []counterexample.StoryStep) (way []state.State, stopped string) {
	way = []state.State{from}
	for i := range steps {
		if ctx.Err() != nil {
			return way, "it was interrupted"
		}
		made := w.ExpandTo(way[i], &steps[i].Action)
		if len(made) == 0 {
			return way, fmt.Sprintf("step %d cannot happen any more: %s", i+1, steps[i].Text)
		}
		way = append(way, made[0].To)
	}
	return way, ""
}

func timelineOf(w *state.Worker, states []state.State, steps []counterexample.StoryStep) []Step {
	way := make([]Step, len(states)-1)
	for i := range way {
		after := states[i+1].Stored
		way[i].StoryStep = steps[i]
		for _, c := range w.Changes(states[i].Stored, after) {
			way[i].Changes = append(way[i].Changes, changeOfObject(c))
		}
		for _, at := range after.Slots {
			if at.Version != nil && at.Name.Ref.GroupKind() != object.Namespaces.GroupKind() {
				way[i].Objects = append(way[i].Objects, at.Version.Object)
			}
		}
	}
	return way
}

// changeOfObject returns a change with the objects alone.
func changeOfObject(d state.Change) Change {
	c := Change{Object: d.After.Name.Ref}
	if d.Before != nil {
		c.Before = d.Before.Object
	}
	if !d.After.Gone {
		c.After = d.After.Object
	}
	return c
}

// realServer is a real API server as a Server and Environment. It makes one step at a time, and of what is stored it
// reads only what the step changes: what other controllers do comes to the story in its own steps.
type realServer struct {
	ctx     context.Context //nolint:containedctx // A replay ends with it.
	cluster Cluster
	// kinds is the API server in memory, which knows them.
	kinds kindServer
	// step is to be made; nil while the initial objects are stored.
	step *pendingStep
	// pairs are the objects of memory on the cluster.
	pairs *pairs
	// response is the one that the cluster sent last; err is the first error, which ends the replay.
	response loop.Response
	err      error
}

// kindServer is a Server that knows the kinds that it serves.
type kindServer interface {
	world.Server
	Resource(kind object.GroupKind) (object.Resource, bool)
}

// pendingStep is a step that the cluster is to make.
type pendingStep struct {
	counterexample.StoryStep

	// changed are the objects that it changes in memory.
	changed []state.Change
	// writes are the requests that make a step of another controller.
	writes  []apiserver.Request
	manager string
}

// is reports whether a step is the pending one.
func (r *realServer) is(kinds ...world.ActionKind) bool {
	return r.step != nil && slices.Contains(kinds, r.step.Step)
}

// Do implements Server.
func (r *realServer) Do(stored world.Stored, request loop.Request) (world.Stored, loop.Response) {
	raw, err := request.HTTP()
	if err != nil {
		return stored, loop.Response{Err: err}
	}
	r.response = r.send(raw)
	changed := r.changedRefs()
	if o, err := object.Parse(r.response.Body); err == nil && o.Kind() != "Status" && !strings.HasSuffix(o.Kind(), "List") &&
		o.Name() != "" && request.Writes() {
		changed = append(changed, o.Ref().Identity())
	}
	return r.read(stored, changed), r.response
}

// changedRefs are the objects that the pending step changes in memory.
func (r *realServer) changedRefs() []object.Ref {
	refs := make([]object.Ref, 0, len(r.step.changed))
	for _, c := range r.step.changed {
		refs = append(refs, cmp.Or(c.After, c.Before).Name.Ref)
	}
	return refs
}

// send sends a request. An error of the connection ends the replay.
func (r *realServer) send(raw *http.Request) loop.Response {
	response, err := r.cluster.Do(r.ctx, raw) //nolint:bodyclose // NewResponse closes it.
	if err == nil {
		var read loop.Response
		if read, err = loop.NewResponse(response); err == nil {
			return read
		}
	}
	r.err = cmp.Or(r.err, err)
	return loop.Response{Err: err}
}

// write sends a request of another client. It returns what the API server rejects as an error.
func (r *realServer) write(manager string, request apiserver.Request) error {
	request.Body = r.pairs.onCluster(request.Body)
	raw, err := request.HTTP(manager)
	if err != nil {
		return err
	}
	response := r.send(raw)
	if response.Err == nil && response.Code >= http.StatusBadRequest {
		return fmt.Errorf("the API server responds %d: %s", response.Code, phrase.Message(response.Body))
	}
	return response.Err
}

// Edit implements Server.
func (r *realServer) Edit(stored world.Stored, one world.Edit) (world.Stored, error) {
	if r.step != nil && (!r.is(world.MakeEdit, world.Interfere) || r.step.Name != one.Name ||
		r.step.Object.Identity() != one.Object.Identity()) {
		return nil, world.ErrUnchanged
	}
	resource, known := r.kinds.Resource(one.Object.GroupKind())
	if !known {
		return nil, fmt.Errorf("the kind %s is not known", one.Object.Kind.Kind)
	}
	if one.Object.GroupKind() == object.Namespaces.GroupKind() && r.step == nil {
		return r.read(stored, []object.Ref{one.Object.Identity()}), r.err // Begin has made it.
	}
	request, changes := world.RequestOf(resource, stored.Get(one.Object), one)
	if !changes {
		return nil, world.ErrUnchanged
	}
	if err := r.write(world.Editor, request); err != nil {
		return nil, err
	}
	return r.read(stored, []object.Ref{one.Object.Identity()}), r.err
}

// Path implements Server.
func (r *realServer) Path(ref object.Ref) string { return r.kinds.Path(ref) }

// Collect implements Server. It waits until the garbage collector of the cluster has made the step.
func (r *realServer) Collect(stored world.Stored) []world.Move {
	if !r.is(world.Collect) {
		return nil
	}
	deadline := time.Now().Add(collectionTime)
	for {
		after := r.read(stored, r.changedRefs())
		if r.err != nil || len(r.pairs.differences(r.step.changed, after)) == 0 || time.Now().After(deadline) {
			return []world.Move{{Name: r.step.Name, Object: *r.step.Object, After: after}}
		}
		select {
		case <-r.ctx.Done():
			r.err = cmp.Or(r.err, r.ctx.Err())
		case <-time.After(collectionPoll):
		}
	}
}

// How long the garbage collector of a cluster may take for a step, and how often the replay looks.
const (
	collectionTime = 60 * time.Second
	collectionPoll = 50 * time.Millisecond
)

// Moves implements Environment. It writes what kubelets and other controllers would.
func (r *realServer) Moves(stored world.Stored) []world.Move {
	if !r.is(world.Proceed) {
		return nil
	}
	for _, request := range r.step.writes {
		if err := r.write(r.step.manager, request); err != nil {
			r.err = cmp.Or(r.err, err)
			return nil
		}
	}
	return []world.Move{{Name: r.step.Name, Object: *r.step.Object, After: r.read(stored, r.changedRefs())}}
}

// read returns what is stored with some objects as they are now.
func (r *realServer) read(stored world.Stored, refs []object.Ref) world.Stored {
	after := slices.Clone(stored)
	for _, ref := range refs {
		now, err := r.readOne(ref)
		if err != nil {
			r.err = cmp.Or(r.err, err)
			return stored
		}
		at, found := slices.BinarySearchFunc(after, ref, func(s apiserver.Slot,
			ref object.Ref) int {
			return world.CompareRefs(s.Ref, ref)
		})
		if !found {
			after = slices.Insert(after, at, apiserver.Slot{Ref: ref})
		}
		after[at] = slotAfter(after[at], now)
	}
	return after
}

// slotAfter returns a slot with the object that has the name now; nil for none.
func slotAfter(s apiserver.Slot, now *object.Object) apiserver.Slot {
	was := s.Object
	switch {
	case now == nil && was != nil:
		s.Written++ // No one says which version a deletion has; it is a later one.
	case now == nil:
	case was == nil || was.UID() != now.UID():
		s.Born++
		s.Written = now.Version()
	case was.ResourceVersion() == now.ResourceVersion():
		return s
	default:
		s.Written = now.Version()
	}
	s.Object = now
	return s
}

// readOne returns an object as it is stored now; nil if there is none.
func (r *realServer) readOne(ref object.Ref) (*object.Object, error) {
	resource, known := r.kinds.Resource(ref.GroupKind())
	if !known {
		return nil, fmt.Errorf("the kind %s is not known", ref.Kind.Kind)
	}
	raw, err := apiserver.Request{Method: http.MethodGet, Resource: resource, Namespace: ref.Namespace, Name: ref.Name}.HTTP(world.Editor)
	if err != nil {
		return nil, err
	}
	switch response := r.send(raw); {
	case response.Err != nil:
		return nil, response.Err
	case response.Code == http.StatusNotFound:
		return nil, nil //nolint:nilnil // No object is a state too.
	case response.Code >= http.StatusBadRequest:
		return nil, fmt.Errorf("read %s: the API server responds %d: %s", ref, response.Code, phrase.Message(response.Body))
	default:
		return object.ParseWithManagedFields(response.Body, resource.APIVersion(), resource.Kind)
	}
}

// pairs are the objects of memory on the cluster, by their UIDs.
type pairs struct{ memory, cluster []string }

// add adds the objects that have the same name now.
func (p *pairs) add(memory, cluster *state.Contents) {
	for _, at := range memory.Slots {
		other := cluster.Get(at.Name)
		if at.Version == nil || other.Version == nil || slices.Contains(p.memory, at.Version.Object.UID()) {
			continue
		}
		p.memory, p.cluster = append(p.memory, at.Version.Object.UID()), append(p.cluster, other.Version.Object.UID())
	}
}

// onCluster returns a text of memory with the UIDs of the cluster.
func (p *pairs) onCluster(text []byte) []byte {
	all := make([]string, 0, 2*len(p.memory))
	for i := range p.memory {
		all = append(all, p.memory[i], p.cluster[i])
	}
	return []byte(strings.NewReplacer(all...).Replace(string(text)))
}

// differences returns how objects that have changed in memory differ on the cluster, a line for each.
func (p *pairs) differences(changed []state.Change, cluster world.Stored) []string {
	var all []string
	last := map[object.Ref]*state.Version{}
	for _, c := range changed {
		last[c.After.Name.Ref] = c.After
	}
	for _, c := range changed {
		ref := c.After.Name.Ref
		if last[ref] == c.After {
			all = append(all, p.difference(c.After, cluster.Get(ref))...)
		}
	}
	return all
}

func (p *pairs) difference(expected *state.Version, got *object.Object) []string {
	ref := expected.Name.Ref.String()
	switch {
	case expected.Gone && got == nil:
		return nil
	case expected.Gone:
		return []string{"expected: " + ref + " is gone", "got:      it exists"}
	case got == nil:
		return []string{"expected: " + ref + " exists", "got:      it is gone"}
	}
	var lines []string
	for _, c := range object.KeyedChanges(bare(p.onCluster(expected.Object.JSON())), bare(got.JSON())) {
		if !isEmpty(c.From) {
			lines = append(lines, fmt.Sprintf("expected: %s has %s: %s", ref, c.Path, c.From), "got:      "+phrase.Value(c.To))
		}
	}
	return lines
}

// bare returns an object without what only one server knows: versions, times, and addresses that it chose. A
// real server has more defaults: what it has besides is left out by the caller.
func bare(data []byte) map[string]any {
	fields, err := object.Decode(data)
	if err != nil {
		return nil // A stored object is valid JSON.
	}
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp",
		"deletionGracePeriodSeconds"} {
		delete(metadata, name)
	}
	if spec, _ := fields["spec"].(map[string]any); fields["kind"] == "Service" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	lasthandled.HideDigests(fields)
	withoutTimes(fields)
	return fields
}

// withoutTimes replaces all times.
func withoutTimes(value any) any {
	switch v := value.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "a time"
		}
	case map[string]any:
		for name, below := range v {
			v[name] = withoutTimes(below)
		}
	case []any:
		for i, below := range v {
			v[i] = withoutTimes(below)
		}
	}
	return value
}

// isEmpty reports whether a value equals one that is absent, as servers leave them out.
func isEmpty(value []byte) bool {
	return slices.Contains([]string{"", "null", "{}", "[]", `""`, "0", "false"}, string(value))
}
