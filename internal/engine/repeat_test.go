package engine

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// TestRepeats: an answer that led to nothing is recognised, and no other is taken
// for it.
func TestRepeats(t *testing.T) {
	const family, child = `{"kind":"Shop","metadata":{"name":"p","uid":"u"},"spec":{"n":1}}`, `{"kind":"Pod","metadata":{"name":"c","uid":"c-1"}}`
	scene := func() *run {
		return &run{
			Controller: &Controller{program: Program{}},
			memory:     &memory{},
			stance:     caring,
			parent:     parse(t, family),
			children:   [][]*object.Object{{parse(t, child)}},
			reply:      &hook.Response{Status: json.RawMessage(`{"ready":1}`), Children: []json.RawMessage{json.RawMessage(child)}},
		}
	}
	idle := scene().scene(parse(t, family))
	for name, c := range map[string]struct {
		change  func(*run)
		repeats bool
	}{
		"the same":              {func(*run) {}, true},
		"an event":              {func(r *run) { r.reply.Events = []hook.Event{{Reason: "Told"}} }, true},
		"later":                 {func(r *run) { r.reply.ResyncAfter = 1 }, true},
		"another status":        {func(r *run) { r.reply.Status = nil }, false},
		"another message":       {func(r *run) { r.reply.Message = "x" }, false},
		"one child more":        {func(r *run) { r.reply.Children = append(r.reply.Children, r.reply.Children[0]) }, false},
		"one child less":        {func(r *run) { r.reply.Children = nil }, false},
		"finalized":             {func(r *run) { r.reply.Finalized = true }, false},
		"conditions have times": {func(r *run) { r.reply.Conditions = []hook.Condition{{Type: "Ready"}} }, false},
		"the parent changed":    {func(r *run) { r.parent = parse(t, `{"kind":"Shop","metadata":{"name":"p","uid":"u"},"spec":{"n":2}}`) }, false},
		"the child changed":     {func(r *run) { r.children[0][0] = parse(t, `{"kind":"Pod","metadata":{"name":"c","uid":"c-2"}}`) }, false},
		"the child is gone":     {func(r *run) { r.children[0] = nil }, false},
		"of another kind":       {func(r *run) { r.children = [][]*object.Object{nil, r.children[0]} }, false},
		"finalizing":            {func(r *run) { r.stance = finalizing }, false},
		"revisions are kept":    {func(r *run) { r.revisions = &store.View{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := scene()
			r.memory.idle = idle
			c.change(r)
			if got := r.repeats(); got != c.repeats {
				t.Errorf("repeats: %v", got)
			}
		})
	}
	if scene().repeats() {
		t.Error("nothing has been said before")
	}
}
