package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// seen are the contents of a manual cache.
type seen []*object.Object

// Seen returns them for all kinds.
func (s seen) Seen(object.Resource) []*object.Object { return s }

// Failing implements Contents: all watches work.
func (seen) Failing(object.Resource) error { return nil }

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
	m := NewManual(seen{manualPod(t, "b", 7, "x"), manualPod(t, "a", 2, "x"), manualPod(t, "c", 1, "y")})
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
	m := NewManual(seen{manualPod(t, "a", 2, "x"), manualPod(t, "g", 1, "x")})
	view, events := openManual(m, Selection{})
	_, other := openManual(m, Selection{})
	m.List()
	m.Deliver(manualPods, manualPod(t, "g", 5, "x"), true)
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

	again := NewManual(seen{manualPod(t, "a", 2, "x")})
	copied, _ := openManual(again, Selection{})
	_, _ = openManual(again, Selection{})
	again.List()
	again.Observe(m.Writes()[:1]...)
	if got := copied.Get("n", "a").Version(); got != 4 || len(again.Writes()) != 1 {
		t.Errorf("version %d after the same writes", got)
	}
}

// TestManualWritesReachAllWatches shows that a write is an event to the watches that do not observe it.
func TestManualWritesReachAllWatches(t *testing.T) {
	m := NewManual(seen{manualPod(t, "a", 2, "x")})
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
	again := NewManual(seen{manualPod(t, "a", 2, "x")})
	copied, _ := openManual(again, Selection{Name: "a"})
	again.List()
	again.Observe(m.Writes()[:1]...)
	if o := copied.Get("n", "a"); o.Version() != 3 || len(again.Writes()) != 1 {
		t.Errorf("a cache without the watch of the writer has %v, and notes %d writes", o, len(again.Writes()))
	}
}

// objectAt returns an object at a version.
func objectAt(t *testing.T, name string, version uint64) *object.Object {
	t.Helper()
	o := namedObject(name)
	o.version = version
	return o.parse(t)
}

func TestReplace(t *testing.T) {
	me := &View{}
	tests := map[string]struct {
		before  func(*watchCache)
		list    []*object.Object
		version uint64
		want    []string // the events of other views
		holds   []string
	}{
		"the first list": {
			list: []*object.Object{objectAt(t, "b", 2), objectAt(t, "a", 1)}, version: 5,
			want: []string{"+a", "+b"}, holds: []string{"a1", "b2"},
		},
		"what is missing is dropped": {
			before: func(c *watchCache) { c.serverUpdated(objectAt(t, "a", 1)); c.serverUpdated(objectAt(t, "b", 2)) },
			list:   []*object.Object{objectAt(t, "b", 2)}, version: 5,
			want: []string{"-a"}, holds: []string{"b2"},
		},
		"our own newer write stays": {
			before: func(c *watchCache) { c.writeReturned(objectAt(t, "a", 9), me, true) },
			list:   []*object.Object{objectAt(t, "b", 2)}, version: 5,
			want: []string{"+b"}, holds: []string{"a9", "b2"},
		},
		"our own newer write is not overwritten": {
			before: func(c *watchCache) {
				c.serverUpdated(objectAt(t, "a", 1))
				c.writeReturned(objectAt(t, "a", 9), me, true)
			},
			list: []*object.Object{objectAt(t, "a", 3)}, version: 5,
			holds: []string{"a9"},
		},
		"our own write that the list could know and lacks was deleted": {
			before: func(c *watchCache) { c.writeReturned(objectAt(t, "a", 4), me, true) },
			list:   []*object.Object{}, version: 5,
			want: []string{"-a"},
		},
		"an object that we deleted is not listed again": {
			before: func(c *watchCache) { c.serverUpdated(objectAt(t, "a", 1)); c.deleteReturned(objectAt(t, "a", 1), me) },
			list:   []*object.Object{objectAt(t, "a", 1)}, version: 5,
		},
		"a reset API server counts": {
			before: func(c *watchCache) {
				c.serverUpdated(objectAt(t, "a", 70))
				c.serverUpdated(objectAt(t, "b", 80))
				c.writeReturned(objectAt(t, "a", 90), me, true)
			},
			list: []*object.Object{objectAt(t, "a", 3), objectAt(t, "c", 4)}, version: 5,
			want: []string{"~a", "+c", "-b"}, holds: []string{"a3", "c4"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newWatchCache()
			if test.before != nil {
				test.before(&c)
			}
			var notified []string
			for _, n := range c.replace(test.list, test.version) {
				if n.only == nil {
					notified = append(notified, eventText(n.Event))
				}
			}
			if !slices.Equal(notified, test.want) {
				t.Errorf("notified %v, want %v", notified, test.want)
			}
			holds := lists.Map(c.all(), func(o *object.Object) string { return o.Name() + o.ResourceVersion() })
			slices.Sort(holds)
			if !slices.Equal(holds, test.holds) {
				t.Errorf("holds %v, want %v", holds, test.holds)
			}
		})
	}
}

// After a reset, new versions count again.
func TestEventsAfterReset(t *testing.T) {
	c := newWatchCache()
	c.serverUpdated(objectAt(t, "a", 70))
	c.replace([]*object.Object{objectAt(t, "a", 3)}, 5)
	if notifications := c.serverUpdated(objectAt(t, "a", 6)); len(notifications) != 1 || c.all()[0].Version() != 6 {
		t.Fatalf("notified %v, holds %v", notifications, describe(c.all()[0]))
	}
	if notifications := c.writeReturned(objectAt(t, "a", 7), &View{}, true); len(notifications) != 1 {
		t.Fatalf("got %v", notifications)
	}
}
