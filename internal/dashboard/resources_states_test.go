package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// statesSource is a process that counts objects, and fails or hangs when it should list them.
type statesSource struct {
	*fakeSource
	matching int
	hangs    bool
	listErr  error
	// unknown is an object that the process does not know, broken one whose states it cannot tell.
	unknown, broken string
	limits          []int
}

func (s *statesSource) Objects(ctx context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	if s.hangs {
		<-ctx.Done()
		return inspect.Page{}, ctx.Err()
	}
	s.limits = append(s.limits, q.Limit)
	if s.listErr != nil {
		return inspect.Page{}, s.listErr
	}
	return inspect.Page{Matching: s.matching, Objects: []inspect.ObjectState{s.state("a", controller)}}, nil
}

func (s *statesSource) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	switch ref.Name {
	case s.unknown:
		return nil, failure.ErrNotFound
	case s.broken:
		return nil, errors.New("out of order")
	}
	return []inspect.ObjectState{s.state(ref.Name, s.controllers[0].Name)}, nil
}

func (s *statesSource) state(name, controller string) inspect.ObjectState {
	return inspect.ObjectState{Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name}, State: inspect.StateSynced, Controller: controller, Process: s.name}
}

// newStatesSource is a process with one controller of Webs.
func newStatesSource(name string) *statesSource {
	c := teamsController()
	c.Process, c.Kinds = name, []object.Kind{webKind()}
	return &statesSource{fakeSource: &fakeSource{name: name, controllers: []inspect.Controller{c}}}
}

// kindOfWebs is a page with some Webs, called a, b, and so on.
func kindOfWebs(n int) *kindPage {
	p := &kindPage{Kind: webKind()}
	for i := range n {
		name := fmt.Sprintf("%c", 'a'+i)
		p.Rows = append(p.Rows, objectRow{Row: userclient.Row{Namespace: "shop", Name: name}, Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name}})
	}
	return p
}

// A list says which states are missing, and why. A process that hangs does not hide the states of
// others.
func TestMissingStatesAreNoted(t *testing.T) {
	hangs, works := newStatesSource("hangs"), newStatesSource("works")
	hangs.hangs, works.matching = true, 1
	fails, gone := newStatesSource("fails"), newStatesSource("gone")
	fails.listErr, gone.listErr = errors.New("out of memory"), failure.ErrNotFound
	each := newStatesSource("each")
	each.matching, each.unknown, each.broken = maxStates+1, "a", "c"

	data := kindOfWebs(4)
	var all []processInfo
	for _, s := range []*statesSource{hangs, works, fails, gone, each} {
		all = append(all, processInfo{Source: s, Controllers: s.controllers})
	}
	// Only the process that hangs meets its timeout.
	short, long := newTestRequest(t, "/"), newTestRequest(t, "/")
	short.timeouts, long.timeouts = inspect.NewTimeouts(time.Millisecond), inspect.NewTimeouts(time.Hour)
	short.addStates(data, all[:1])
	long.addStates(data, all[1:])
	for _, want := range []string{
		"States are missing: process hangs did not respond in time.", "States are missing: process fails did not respond: out of memory.",
		"States are missing: process each did not respond: out of order.",
	} {
		if !strings.Contains(data.Note, want) {
			t.Errorf("%q is not noted: %s", want, data.Note)
		}
	}
	if strings.Contains(data.Note, "works") || strings.Contains(data.Note, "gone") {
		t.Errorf("noted: %s", data.Note)
	}
	for i, want := range []string{"works", "each", "", ""} {
		var from []string
		for _, state := range data.Rows[i].States {
			from = append(from, state.Process)
		}
		if strings.Join(from, " ") != want {
			t.Errorf("%s has states from %q, want %q", data.Rows[i].Name, from, want)
		}
	}
}

// States of more objects than are sorted are not fetched.
func TestStatesOfSortedListsAreLimited(t *testing.T) {
	source := newStatesSource("setpoint")
	source.matching = maxSortedRows + 1
	data := kindOfWebs(pageRows + 1)
	newTestRequest(t, "/").addStates(data, []processInfo{{Source: source, Controllers: source.controllers}})
	if want := []int{1, maxSortedRows}; !slices.Equal(source.limits, want) || !strings.Contains(data.Note, "first 20,000 states") {
		t.Errorf("limits %v, want %v; noted: %s", source.limits, want, data.Note)
	}
}
