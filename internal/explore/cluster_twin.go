package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
