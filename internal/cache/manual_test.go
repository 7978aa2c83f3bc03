package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// seen are the contents of a manual cache.
type seen struct{ objects, gone []*object.Object }

// Seen returns them for all kinds.
func (s seen) Seen(object.Resource) (objects, gone []*object.Object) { return s.objects, s.gone }

// manualPod returns a pod with a version that counts its own writes.
func manualPod(t *testing.T, name string, version int, app string) *object.Object {
	t.Helper()
	return must.Get(object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":"%s","uid":"%[1]s","resourceVersion":"%d","labels":{"app":"%s"}},"spec":{"nodeName":"%[3]s"}}`, name, version, app))).In(t)
}

var manualPods = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

// openManual opens a view that notes its events.
func openManual(m *Manual, selection Selection) (view *View, events *[]string) {
	events = new([]string)
	selection.Resource = manualPods
	view = m.Watch(selection, func(e Event) {
		text := e.Object().Name()
		if e.Old != nil {
			text += " from " + e.Old.ResourceVersion()
		}
		if e.New != nil {
			text += " to " + e.New.ResourceVersion()
		}
		*events = append(*events, text)
	})
	return view, events
}

func wantEvents(t *testing.T, events *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*events, want) {
		t.Errorf("events %q, want %q", *events, want)
	}
	*events = nil
}

func TestManual(t *testing.T) {
	m := NewManual(seen{objects: []*object.Object{manualPod(t, "b", 7, "x"), manualPod(t, "a", 2, "x"), manualPod(t, "c", 1, "y")}})
	view, events := openManual(m, Selection{Labels: "app=x"})
	_, onNode := openManual(m, Selection{Fields: "spec.nodeName=y"})
	bare, _ := openManual(m, Selection{Metadata: true})
	wantEvents(t, events)
	m.List()
	wantEvents(t, events, "a to 2", "b to 7")
	wantEvents(t, onNode, "c to 1")
	if bare.Get("n", "a").Field("spec") != nil || !view.Synced() {
		t.Error("a watch of metadata has the spec, or a view is not synced")
	}
	// An older version of another object is news all the same.
	m.Deliver(manualPods, manualPod(t, "a", 3, "x"), false)
	wantEvents(t, events, "a from 2 to 3")
	m.Deliver(manualPods, manualPod(t, "c", 2, "x"), false)
	wantEvents(t, events, "c to 2")
	wantEvents(t, onNode, "c from 1")
	m.Deliver(manualPods, manualPod(t, "b", 8, "y"), false)
	wantEvents(t, events, "b from 7")
	m.Deliver(manualPods, manualPod(t, "a", 4, "x"), true)
	wantEvents(t, events, "a from 3")
	later, _ := openManual(m, Selection{Labels: "app=x"})
	if !later.Synced() {
		t.Error("a view that is opened later is not synced")
	}
}

func TestManualWrites(t *testing.T) {
	m := NewManual(seen{objects: []*object.Object{manualPod(t, "a", 2, "x")}, gone: []*object.Object{manualPod(t, "g", 5, "x")}})
	view, events := openManual(m, Selection{})
	_, other := openManual(m, Selection{})
	m.List()
	*events, *other = nil, nil
	view.ObserveWrite(manualPod(t, "a", 4, "x"))
	view.ObserveWrite(manualPod(t, "g", 4, "x"))
	if view.Get("n", "g") != nil {
		t.Error("the result of a write is back after its object was deleted")
	}
	wantEvents(t, events)
	wantEvents(t, other, "a from 2 to 4")
	// Another client's change came between, the event of the own write did not.
	m.Deliver(manualPods, manualPod(t, "a", 3, "x"), false)
	wantEvents(t, events, "a from 2 to 4")
	m.Deliver(manualPods, manualPod(t, "a", 4, "x"), false)
	wantEvents(t, events)
	view.ObserveDelete(manualPod(t, "a", 4, "x"))
	m.Deliver(manualPods, manualPod(t, "a", 5, "x"), true)
	wantEvents(t, events)

	again := NewManual(seen{objects: []*object.Object{manualPod(t, "a", 2, "x")}})
	copied, _ := openManual(again, Selection{})
	_, _ = openManual(again, Selection{})
	again.List()
	again.Observe(m.Writes()[:1])
	if got := copied.Get("n", "a").Version(); got != 4 || len(again.Writes()) != 1 {
		t.Errorf("version %d after the same writes", got)
	}
}

// TestManualWritesReachAllWatches shows that a write is an event to the watches that do not observe it.
func TestManualWritesReachAllWatches(t *testing.T) {
	m := NewManual(seen{objects: []*object.Object{manualPod(t, "a", 2, "x")}})
	view, events := openManual(m, Selection{})
	narrow, narrowEvents := openManual(m, Selection{Name: "a"})
	labeled, labeledEvents := openManual(m, Selection{Labels: "app=x"})
	m.List()
	*events, *narrowEvents, *labeledEvents = nil, nil, nil
	view.ObserveWrite(manualPod(t, "a", 3, "y"))
	wantEvents(t, events)
	wantEvents(t, narrowEvents, "a from 2 to 3")
	wantEvents(t, labeledEvents, "a from 2")
	m.Deliver(manualPods, manualPod(t, "a", 3, "y"), false)
	wantEvents(t, narrowEvents)
	labeled.Close()
	later, _ := openManual(m, Selection{Labels: "app=y"})
	if o := later.Get("n", "a"); o == nil || o.Version() != 3 {
		t.Errorf("a watch that is opened after the write has %v", o)
	}
	view.ObserveDelete(manualPod(t, "a", 3, "y"))
	wantEvents(t, narrowEvents, "a from 3")
	wantEvents(t, labeledEvents)
	m.Deliver(manualPods, manualPod(t, "a", 4, "y"), true)
	wantEvents(t, narrowEvents)
	if narrow.Len() != 0 || later.Len() != 0 {
		t.Error("a deleted object stays")
	}
	again := NewManual(seen{objects: []*object.Object{manualPod(t, "a", 2, "x")}})
	copied, _ := openManual(again, Selection{Name: "a"})
	again.List()
	again.Observe(m.Writes()[:1])
	if o := copied.Get("n", "a"); o.Version() != 3 || len(again.Writes()) != 1 {
		t.Errorf("a cache without the watch of the writer has %v, and notes %d writes", o, len(again.Writes()))
	}
}
