package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
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
	Replayed

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
func ReplayOn(ctx context.Context, options Options, story Story, cluster Cluster) (replay *ClusterReplay, err error) {
	err = guarded(func() error {
		replay, err = followOn(ctx, options, story, cluster)
		return err
	})
	return replay, err
}

func followOn(ctx context.Context, options Options, story Story, cluster Cluster) (*ClusterReplay, error) {
	inMemory, err := follow(ctx, options, story)
	if err != nil {
		return nil, err
	}
	r := &ClusterReplay{Replayed: *inMemory, Later: len(inMemory.Steps) - len(story.Steps)}
	if !r.Violated {
		return r, nil
	}
	if err := story.fitsCluster(); err != nil {
		return nil, err
	}
	ways := [][]StoryStep{story.Steps}
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

// kindsOfControllers are the kinds whose steps are those of controllers that every cluster has. They do not stop
// where a story does.
var kindsOfControllers = []object.GroupKind{
	{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "StatefulSet"},
	{Group: "batch", Kind: "Job"}, {Kind: "PersistentVolumeClaim"},
}

// fitsCluster reports what a cluster would not do at the time at which the story has it.
func (s *Story) fitsCluster() error {
	for i, step := range slices.Concat(s.Steps, s.Other) {
		if step.Step == edit && step.Object.GroupKind() == loop.OutageResource.GroupKind() {
			return fmt.Errorf("step %d takes a kind or a right away, which is not done to a cluster that others use: %s", i+1, step.Text)
		}
		if step.Step == proceed && slices.Contains(kindsOfControllers, step.Object.GroupKind()) {
			return fmt.Errorf("step %d is one of a controller of Kubernetes, which does not wait for the story: %s", i+1, step.Text)
		}
	}
	for i, raw := range s.Objects {
		if o, err := object.Parse(encoded(raw)); err == nil && o.GroupKind() == object.Namespaces.GroupKind() {
			return fmt.Errorf("objects[%d]: is a Namespace; a replay on a cluster has namespaces of its own", i)
		}
	}
	return nil
}

// goWay makes steps in memory and on the cluster, both in namespaces of the cluster, and compares them.
func (r *ClusterReplay) goWay(ctx context.Context, options Options, story Story, way []StoryStep, cluster Cluster) (err error) {
	namespaces, err := cluster.Begin(ctx, story.namespaces())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.End(ctx)) }()
	texts := way
	if story, err = story.in(namespaces, way); err != nil {
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

// namespaces returns those of the objects and edits of a story, sorted.
func (s *Story) namespaces() []string {
	var all []string
	for _, raw := range s.Objects {
		if o, err := object.Parse(encoded(raw)); err == nil && o.Namespace() != "" {
			all = append(all, o.Namespace())
		}
	}
	for _, e := range s.Edits {
		if e.Object.Namespace != "" {
			all = append(all, e.Object.Namespace)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// in returns the story of one way in other namespaces.
func (s Story) in(namespaces map[string]string, way []StoryStep) (Story, error) {
	moved := func(name string) string {
		if to, known := namespaces[name]; known {
			return to
		}
		return name
	}
	objects := s.Objects
	s.Objects, s.Edits, s.Steps, s.Other = nil, slices.Clone(s.Edits), slices.Clone(way), nil
	for _, name := range slices.Sorted(maps.Values(namespaces)) {
		s.Objects = append(s.Objects, map[string]any{"apiVersion": "v1", "kind": object.Namespaces.Kind,
			"metadata": map[string]any{"name": name}})
	}
	for i, raw := range objects {
		o, err := inOther(raw, moved)
		if err != nil {
			return s, fmt.Errorf("objects[%d]: %w", i, err)
		}
		s.Objects = append(s.Objects, o)
	}
	for i := range s.Edits {
		e := &s.Edits[i]
		e.Object.Namespace = moved(e.Object.Namespace)
		if e.Create == nil {
			continue
		}
		var err error
		if e.Create, err = withNamespace(e.Create, moved(e.Create.Namespace())); err != nil {
			return s, fmt.Errorf("edits[%d].create: %w", i, err)
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		if namespace, name, found := strings.Cut(step.Key, "/"); found {
			step.Key = moved(namespace) + "/" + name
		}
		if step.Object != nil {
			ref := *step.Object
			ref.Namespace = moved(ref.Namespace)
			step.Object = &ref
		}
	}
	return s, nil
}

// inOther returns an object of a file in another namespace.
func inOther(raw any, moved func(string) string) (any, error) {
	o, err := object.Parse(encoded(raw))
	if err != nil {
		return nil, err
	}
	if o, err = withNamespace(o, moved(o.Namespace())); err != nil {
		return nil, err
	}
	return object.Decode(o.JSON())
}

func withNamespace(o *object.Object, namespace string) (*object.Object, error) {
	if o.Namespace() == namespace {
		return o, nil
	}
	return o.With(encoded(namespace), "metadata", "namespace")
}

// twin makes the steps of a story on a cluster, beside what they do in memory.
type twin struct {
	story  *Story
	memory *search
	// nodes are the states in memory, before and after each step.
	nodes  []uint32
	server *realServer
	// worker and at are the processes and the state on the cluster.
	worker *worker
	at     state
	broken []finding
}

// newTwin makes all steps in memory, and stores the objects on the cluster.
func newTwin(ctx context.Context, options Options, story *Story, cluster Cluster) (*twin, error) {
	kinds, is := options.Server.(*inMemory)
	if !is {
		return nil, errElsewhere
	}
	options.unrenamed = true
	memory, err := replayed(options, story)
	if err != nil {
		return nil, err
	}
	t := &twin{story: story, memory: memory}
	var stopped string
	if t.nodes, _, stopped = memory.follow(ctx, story.Steps); stopped != "" {
		return nil, fmt.Errorf("in the namespaces of the cluster, %s", stopped)
	}
	t.server = &realServer{ctx: ctx, cluster: cluster, kinds: kinds, pairs: &pairs{}}
	options.Server, options.Environment = t.server, t.server
	onCluster, err := replayed(options, story)
	if err = errors.Join(err, t.server.err); err != nil {
		return nil, fmt.Errorf("store the objects of the story on the cluster: %w", err)
	}
	t.worker, t.at = onCluster.workers[0], onCluster.unpack(onCluster.nodes[0].state)
	t.server.pairs.add(t.before(0).stored, t.at.stored)
	return t, nil
}

// before returns the state in memory before a step, or after the one before it.
func (t *twin) before(i int) state { return t.memory.unpack(t.memory.nodes[t.nodes[i]].state) }

// step makes a step on the cluster. It returns what differs from what it does in memory.
func (t *twin) step(i int) (difference string, err error) {
	before, after := t.before(i), t.before(i+1)
	pending := &pendingStep{StoryStep: t.story.Steps[i], changed: changes(t.memory.engine, before.stored, after.stored)}
	if err := t.addWrites(pending, before); err != nil {
		return "", err
	}
	t.server.step = pending
	if difference := t.otherRequest(before, &pending.Action); difference != "" {
		return difference, nil
	}
	made := t.worker.expandTo(t.at, &pending.Action)
	if err := errors.Join(t.server.err, t.worker.err); err != nil {
		return "", err
	}
	if len(made) == 0 {
		return "it cannot happen: the cluster is in another state", nil
	}
	t.at = made[0].to
	t.broken = append(t.broken, made[0].findings...)
	t.server.pairs.add(after.stored, t.at.stored)
	if difference := t.otherResponse(before, &pending.Action); difference != "" {
		return difference, nil
	}
	return strings.Join(t.server.pairs.differences(pending.changed, t.at.stored.raw()), "\n"), nil
}

// addWrites adds the requests of a step of another controller.
func (t *twin) addWrites(pending *pendingStep, before state) error {
	if pending.Step != proceed {
		return nil
	}
	for _, m := range t.memory.options.Environment.Moves(before.stored.raw()) {
		if m.Name == pending.Name && m.Object.Identity() == pending.Object.Identity() {
			pending.writes, pending.manager = m.Writes, m.Manager
			return nil
		}
	}
	return fmt.Errorf("no model has the step %q", pending.Name)
}

// requestIn returns the request of a step; nil if it is none.
func requestIn(at state, a *Action) *request {
	if a.Step != send && a.Step != reject {
		return nil
	}
	for _, p := range at.processes.all {
		for _, r := range p.runs {
			if r.item.Controller == a.Controller && r.item.Key.String() == a.Key {
				return r.request
			}
		}
	}
	return nil
}

// otherRequest compares what a run requests on the cluster with what it requests in memory.
func (t *twin) otherRequest(before state, a *Action) string {
	expected, got := requestIn(before, a), requestIn(t.at, a)
	if expected == nil || got == nil {
		return ""
	}
	path := func(r *request) string {
		target, _, _ := strings.Cut(r.Target, "?")
		return r.Method + " " + target
	}
	if path(expected) == path(got) {
		return ""
	}
	return fmt.Sprintf("expected: Setpoint requests %s\ngot:      %s", path(expected), path(got))
}

// otherResponse compares the codes of the responses to a request.
func (t *twin) otherResponse(before state, a *Action) string {
	r := requestIn(before, a)
	if r == nil || a.Step != send {
		return ""
	}
	expected, got := t.memory.workers[0].do(before.stored, r).response, t.server.response
	if expected.Status == got.Status {
		return ""
	}
	return fmt.Sprintf("expected: %s responds %s\ngot:      %s", describeRequest(&r.Request, expected), codeAndMessage(expected),
		codeAndMessage(got))
}

func codeAndMessage(r Response) string {
	if message := statusMessage(r.Body); message != "" {
		return fmt.Sprintf("%d: %s", r.Status, message)
	}
	return strconv.Itoa(r.Status)
}

// compareEnd returns why an invariant is not violated on the cluster; empty if it is, or if the property follows from
// the steps.
func (t *twin) compareEnd(property Property) string {
	if slices.Contains(Properties, property) {
		return ""
	}
	all := slices.Concat(t.broken, t.worker.broken(t.at.stored, true), t.worker.broken(t.at.stored, false))
	if slices.ContainsFunc(all, func(f finding) bool { return f.property == property }) {
		return ""
	}
	return fmt.Sprintf("All steps are the same on the cluster, but %q is not violated there.", property)
}
