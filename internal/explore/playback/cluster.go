// Package playback makes the steps of stories once more: for a timeline, and on a real API server beside the one in memory, to
// compare what each step does.
package playback

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
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
