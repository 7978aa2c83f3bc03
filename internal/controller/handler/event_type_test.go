package handler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
)

// Objects of the first list are Listed, also after a change of the leader; a later list has
// only differences.
func TestEventTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		var mu sync.Mutex
		var lines []string
		p := program(trigger.Handler{Name: "e", On: []hook.Reason{hook.ReasonEvent}})
		do := map[string]handlerFunc{"e": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf("%s %s", n.Event, n.Name))
			return &hook.HandlerResponse{}, nil
		}}
		expect := func(want ...string) {
			t.Helper()
			pass(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(lines)
			if !slices.Equal(lines, want) {
				t.Errorf("called for %q, want %q", lines, want)
			}
			lines = nil
		}
		w := startEnv(s, p, s, do)
		defer func() { w.stop() }()
		expect("Listed eur")
		s.create(rates, "usd", `{"spec":{"n":1}}`)
		s.edit(rates, "eur", `{"status":{"n":1}}`)
		expect("Added usd", "Modified eur")
		s.drop(rates, "usd")
		expect("Deleted usd")
		s.breakWatches()
		s.create(rates, "chf", `{}`)
		s.edit(rates, "eur", `{"status":{"n":2}}`)
		expect("Added chf", "Modified eur")
		s.breakWatches()
		s.drop(rates, "chf")
		s.create(rates, "chf", `{}`)
		expect("Added chf", "Deleted chf")
		w.stop()
		w = startEnv(s, p, s, do)
		expect("Listed chf", "Listed eur")
	})
}
