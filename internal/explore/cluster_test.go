package explore_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/playback"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// otherServer is a second API server in memory in place of a cluster, with a garbage collector that is always at
// work. The test of a real one is in test/e2e.
type otherServer struct {
	server *apiserver.Server
	state  *apiserver.State
	// fails are substrings of requests that it rejects.
	fails string
	begun int
}

func (o *otherServer) Begin(context.Context, []string) (map[string]string, error) {
	o.state = o.server.Empty()
	o.begun++
	return map[string]string{"default": "elsewhere"}, nil
}

func (o *otherServer) Do(_ context.Context, r *http.Request) (*http.Response, error) {
	if o.fails != "" && strings.Contains(r.Method+" "+r.URL.Path, o.fails) {
		r.URL.Path = "/no/such/path"
	}
	after, response := o.server.Do(o.state, r)
	o.state = after
	for next := o.server.Collect(o.state); len(next) > 0; next = o.server.Collect(o.state) {
		o.state = next[0].State
	}
	return response, nil
}

func (o *otherServer) End(context.Context) error { return nil }

func newOther(t *testing.T) *otherServer {
	return &otherServer{server: apiservertest.New(t, []object.Resource{configMaps, pods}, thingsCRD, "elsewhere")}
}

func TestStoriesReplayOnACluster(t *testing.T) {
	for _, m := range mistakes {
		if m.want == property.Deterministic {
			continue // The story of a hook that differs is the difference.
		}
		t.Run(m.name, func(t *testing.T) {
			story := run(t, m.options(t)).Violations[0]
			cluster := newOther(t)
			replay, err := playback.ReplayOn(t.Context(), m.options(t), story, cluster)
			if err != nil {
				t.Fatal(err)
			}
			ways := 1
			if len(story.Other) > 0 {
				ways = 2
			}
			if replay.Difference != "" || !replay.Violated || replay.Made != len(story.Steps)+len(story.Other) || cluster.begun != ways {
				t.Errorf("%d of %d steps in %d ways; %s", replay.Made, len(story.Steps), cluster.begun, replay.Difference)
			}
		})
	}
}

func TestWhatAClusterDoesOtherwise(t *testing.T) {
	m := mistakes[slices.IndexFunc(mistakes, func(m mistake) bool { return m.want == property.Settles })]
	story := run(t, m.options(t)).Violations[0]
	for fails, want := range map[string]string{
		"POST /api/v1/namespaces/elsewhere/configmaps": "404",
	} {
		cluster := newOther(t)
		cluster.fails = fails
		replay, err := playback.ReplayOn(t.Context(), m.options(t), story, cluster)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, replay.Difference, "differs on the cluster", "expected: ", "got: ", want)
	}
}

// TestALaterRestOnACluster replays a story after which there is more to do. The cluster makes the steps of the story.
func TestALaterRestOnACluster(t *testing.T) {
	options := system(t, numbered)
	options.Invariants = []property.Invariant{{Name: "nothing", Eventually: "children.size() == 0"}}
	story := run(t, options).Violations[0]
	all := len(story.Steps)
	story.Steps = story.Steps[:1]
	replay, err := playback.ReplayOn(t.Context(), options, story, newOther(t))
	if err != nil || !replay.Violated || replay.Difference != "" || replay.Made != 1 || replay.Later != all-1 {
		t.Errorf("%+v, %v; the story has %d steps", replay, err, all)
	}
}
