package cache

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Contents are what a manual cache has seen.
type Contents interface {
	// Seen returns the objects of a kind as of the latest events.
	Seen(resource object.Resource) []*object.Object
	// Failing returns why watches of a kind fail, and list nothing; nil if they do not.
	Failing(resource object.Resource) error
}

// Write is the result of a write that a view has observed.
type Write struct {
	Selection Selection
	// View is the number of the view among those of the selection.
	View int
	// Object is the object as stored or, if Deleted, as it was.
	Object  *object.Object
	Deleted bool
}

// Manual is a Cache without connections, to run a controller step by step: it starts with given
// contents, and events come by Deliver. Versions may count the writes of one name, not of the cluster.
//
// Watches of one kind see the same: to those that a write was not observed by, it is an event that comes at once.
//
// Handlers run in the goroutine that calls List, Observe or Deliver. One goroutine may use it at a time.
type Manual struct {
	*Cache

	contents Contents
	listed   bool
	// opened are the watches in the order in which they were opened.
	opened []*watch
	writes []Write
}

// NewManual returns a cache with these contents.
func NewManual(contents Contents) *Manual {
	m := &Manual{Cache: New(nil, Options{}), contents: contents}
	m.startManual = m.start
	return m
}

func (m *Manual) start(w *watch) {
	m.opened = append(m.opened, w)
	w.stop = func() {
		m.opened = slices.DeleteFunc(m.opened, func(other *watch) bool { return other == w })
	}
	w.onWrite = func(v *View, o *object.Object, deleted bool) {
		m.note(Write{Selection: w.selection, View: slices.Index(w.views, v), Object: o, Deleted: deleted})
	}
	if err := m.contents.Failing(w.selection.Resource); err != nil {
		w.lastErr.Store(&err)
		return
	}
	w.cache.perObject = true
	for _, o := range m.contents.Seen(w.selection.Resource) {
		if w.wants(o) {
			w.cache.put(nil, w.inForm(o))
		}
	}
	if m.listed {
		w.cache.lists++
	}
	for _, write := range m.writes {
		if w.isOf(write.Selection.Resource) {
			w.arrive(write.Object, write.Deleted)
		}
	}
}

// List passes the existing objects to the handlers, sorted. Then the views are ready. Those that open later get none.
func (m *Manual) List() {
	m.listed = true
	for _, w := range m.opened {
		if w.currentErr() == nil {
			w.list()
		}
	}
}

func (w *watch) list() {
	existing := slices.SortedFunc(maps.Values(w.cache.objects), object.CompareNames)
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	w.cache.lists++
	for _, v := range w.views {
		for _, o := range existing {
			v.notify(Event{New: o})
		}
		v.markReady()
	}
}

// Observe repeats writes whose events are still to come.
func (m *Manual) Observe(writes ...Write) {
	for _, write := range writes {
		i := slices.IndexFunc(m.opened, func(w *watch) bool { return w.selection == write.Selection })
		if i < 0 || write.View >= len(m.opened[i].views) {
			m.note(write)
			continue
		}
		m.opened[i].views[write.View].observe(write.Object, write.Deleted)
	}
}

// Writes returns all observed writes.
func (m *Manual) Writes() []Write { return m.writes }

// Deliver passes an event of the API server to the watches of its kind: the object is as it is now or, if deleted, as
// it was, with the version of the deletion. Events of one object come in the order of their versions.
func (m *Manual) Deliver(resource object.Resource, o *object.Object, deleted bool) {
	for _, w := range m.opened {
		if w.isOf(resource) {
			w.arrive(o, deleted)
		}
	}
}

func (w *watch) isOf(resource object.Resource) bool {
	of := w.selection.Resource
	return of.Kind == resource.Kind && of.APIVersion() == resource.APIVersion()
}

func (w *watch) arrive(o *object.Object, deleted bool) {
	w.apply(func(c *watchCache) []notification {
		if deleted || !w.wants(o) {
			return c.serverDeleted(o)
		}
		return c.serverUpdated(w.inForm(o))
	})
}

// note notes a write and passes it to the watches whose views do not observe it. What a run reads of
// them then is what later events are compared with.
func (m *Manual) note(write Write) {
	m.writes = append(m.writes, write)
	for _, w := range m.opened {
		if w.selection != write.Selection && w.isOf(write.Selection.Resource) {
			w.arrive(write.Object, write.Deleted)
		}
	}
}

// wants reports whether the API server would send the object: unlike selects, it evaluates field selectors.
func (w *watch) wants(o *object.Object) bool {
	if !w.selects(o) {
		return false
	}
	if w.selection.Fields == "" {
		return true
	}
	selector, err := fields.ParseSelector(w.selection.Fields)
	if err != nil {
		return false
	}
	values := fields.Set{}
	for _, r := range selector.Requirements() {
		values[r.Field] = scalarAt(o, strings.Split(r.Field, ".")...)
	}
	return selector.Matches(values)
}

// scalarAt returns a field as field selectors see it.
func scalarAt(o *object.Object, path ...string) string {
	value := o.Field(path...)
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// inForm returns the object as the watch requests it.
func (w *watch) inForm(o *object.Object) *object.Object {
	if !w.selection.Metadata {
		return o
	}
	bare, err := object.Encode(map[string]any{
		"apiVersion": o.APIVersion(), "kind": o.Kind(), "metadata": json.RawMessage(o.Field("metadata")),
	})
	if err != nil {
		return o // It never happens: the metadata are those of an object.
	}
	return bare
}
