package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// selectedLabel is the label that the watch selects.
const selectedLabel = "picked"

// change is an entry in the history of the model.
type change struct {
	before, after *object.Object // nil: created; nil: deleted
	version       uint64
	author        *View // nil: another client
}

// model is a model of an API server, one watch of it, and views that write.
type model struct {
	t       *testing.T
	rand    *rand.Rand
	history []change
	state   map[key]*object.Object
	version uint64
	uids    int

	sent      map[uint64]bool // versions that the watch has received
	delivered int             // entries of the history that the watch has received
	responses []func()        // responses to writes that are still on their way
	cache     watchCache
	writers   []*View
	notified  map[*View]map[string]uint64 // newest version or deletion, by UID
	observed  map[key]*object.Object      // what a view that never writes makes of its events
	gone      map[string]bool             // UIDs that a writer has deleted
	lastShown map[string]uint64
}

func newModel(t *testing.T, seed uint64) *model {
	w := &model{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), cache: newWatchCache(),
		state: map[key]*object.Object{}, observed: map[key]*object.Object{},
		writers: []*View{{}, {}}, notified: map[*View]map[string]uint64{},
		gone: map[string]bool{}, sent: map[uint64]bool{}, lastShown: map[string]uint64{},
	}
	for _, v := range w.writers {
		w.notified[v] = map[string]uint64{}
	}
	return w
}

func isSelected(o *object.Object) bool { return o != nil && o.Labels().Get(selectedLabel) == "yes" }

// TestCacheAgainstModel runs random histories in which responses and events arrive in any
// order, with lists at any moment.
func TestCacheAgainstModel(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newModel(t, seed)
			for step := range 200 {
				w.step()
				w.check()
				if step%10 == 0 {
					w.checkIndex()
				}
			}
			w.drain()
			w.check()
			w.checkIndex()
			w.checkSettled()
		})
	}
}

func (w *model) step() {
	switch w.rand.IntN(10) {
	case 0, 1:
		w.commit(nil)
	case 2, 3:
		v := w.writers[w.rand.IntN(len(w.writers))]
		response := w.commit(v)
		w.responses = append(w.responses, func() { w.handleResponse(v, response) })
	case 4, 5:
		w.deliverResponse()
	case 6, 7, 8:
		w.deliverEvent()
	case 9:
		if w.rand.IntN(5) == 0 {
			w.relist(w.delivered + w.rand.IntN(len(w.history)-w.delivered+1))
		}
	}
}

func (w *model) drain() {
	for len(w.responses) > 0 {
		w.deliverResponse()
	}
	for w.delivered < len(w.history) {
		w.deliverEvent()
	}
	w.cache.advance(w.version)
}

// commit makes a random change at the API server.
func (w *model) commit(author *View) change {
	name := key{fmt.Sprintf("ns%d", w.rand.IntN(2)), fmt.Sprintf("n%d", w.rand.IntN(3))}
	w.version++
	c := change{before: w.state[name], version: w.version, author: author}
	switch {
	case c.before == nil:
		w.uids++
		c.after = w.make(name, fmt.Sprintf("uid%d", w.uids))
		w.state[name] = c.after
	case w.rand.IntN(4) == 0:
		delete(w.state, name)
	default:
		c.after = w.make(name, c.before.UID())
		w.state[name] = c.after
	}
	w.history = append(w.history, c)
	return c
}

func (w *model) make(name key, uid string) *object.Object {
	o := testObject{key: name, uid: uid, version: w.version, labels: map[string]string{
		selectedLabel: pick(w.rand, "yes", "yes", "yes", "no"),
		"tier":        pick(w.rand, "front", "back"),
	}}
	if w.rand.IntN(2) == 0 {
		o.owner = pick(w.rand, "owner-a", "owner-b")
	}
	return o.parse(w.t)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// handleResponse handles the response to a write as controllers do.
func (w *model) handleResponse(v *View, c change) {
	if c.after == nil {
		// An object whose events are still to come may be added and deleted again.
		if now := w.cache.objects[keyOf(c.before)]; now != nil && now.UID() == c.before.UID() && !w.mayReappear(now.UID()) {
			w.gone[c.before.UID()] = true
		}
		w.notify(w.cache.deleteReturned(c.before, v))
		return
	}
	w.notify(w.cache.writeReturned(c.after, v, isSelected(c.after)))
	if now := w.cache.objects[keyOf(c.after)]; now != nil && now.Version() < c.after.Version() {
		w.t.Fatalf("wrote version %d, then read %d", c.after.Version(), now.Version())
	}
}

// mayReappear reports whether an event is to come with which the object leaves the selection
// before it is deleted.
func (w *model) mayReappear(uid string) bool {
	return slices.ContainsFunc(w.history[w.delivered:], func(c change) bool {
		return c.after != nil && c.after.UID() == uid && !isSelected(c.after)
	})
}

func (w *model) deliverResponse() {
	if len(w.responses) == 0 {
		return
	}
	at := w.rand.IntN(len(w.responses))
	deliver := w.responses[at]
	w.responses = slices.Delete(w.responses, at, at+1)
	deliver()
}

// deliverEvent delivers the next entry of the history.
func (w *model) deliverEvent() {
	if w.delivered == len(w.history) {
		return
	}
	c := w.history[w.delivered]
	w.delivered++
	switch {
	case isSelected(c.after):
		w.sent[c.version] = true
		w.notify(w.cache.serverUpdated(c.after))
	case isSelected(c.before):
		w.notify(w.cache.serverDeleted(must.Get(c.before.With(fmt.Appendf(nil, `"%d"`, c.version), "metadata", "resourceVersion")).In(w.t)))
	case w.rand.IntN(2) == 0:
		w.cache.advance(c.version)
	}
}

func (w *model) relist(upTo int) {
	state := map[key]*object.Object{}
	for _, c := range w.history[:upTo] {
		if c.after == nil {
			delete(state, keyOf(c.before))
		} else {
			state[keyOf(c.after)] = c.after
		}
	}
	list := slices.DeleteFunc(slices.Collect(maps.Values(state)), func(o *object.Object) bool { return !isSelected(o) })
	for _, o := range list {
		w.sent[o.Version()] = true
	}
	w.delivered = upTo
	version := uint64(0)
	if upTo > 0 {
		version = w.history[upTo-1].version
	}
	w.notify(w.cache.replace(list, max(version, w.cache.latestVersion)))
}

func (w *model) notify(notifications []notification) {
	for _, n := range notifications {
		for v, notified := range w.notified {
			if n.isFor(v) {
				recordVersion(notified, n.Event)
			}
		}
		if n.only == nil {
			w.observe(n.Event)
		}
	}
}

// recordVersion records the newest version that a view was notified of.
func recordVersion(notified map[string]uint64, e Event) {
	if e.Old != nil && (e.New == nil || e.New.UID() != e.Old.UID()) {
		notified[e.Old.UID()] = ^uint64(0)
	}
	if e.New != nil {
		notified[e.New.UID()] = max(notified[e.New.UID()], e.New.Version())
	}
}

// observe checks that events form a chain.
func (w *model) observe(e Event) {
	o := e.New
	if o == nil {
		o = e.Old
	}
	if w.observed[keyOf(o)] != e.Old {
		w.t.Fatalf("event starts from %v, previously notified of %v", describe(e.Old), describe(w.observed[keyOf(o)]))
	}
	if e.New == nil {
		delete(w.observed, keyOf(o))
	} else {
		w.observed[keyOf(o)] = e.New
	}
}

func (w *model) check() {
	w.t.Helper()
	if !maps.Equal(w.observed, w.cache.objects) {
		w.t.Fatalf("events lead to %v, the cache holds %v", w.observed, w.cache.objects)
	}
	bytes := 0
	for _, o := range w.cache.objects {
		bytes += o.Size()
		if w.gone[o.UID()] {
			w.t.Fatalf("%s is back after it was removed", describe(o))
		}
		if o.Version() < w.lastShown[o.UID()] {
			w.t.Fatalf("%s goes back from version %d", describe(o), w.lastShown[o.UID()])
		}
		w.lastShown[o.UID()] = o.Version()
	}
	if bytes != w.cache.bytes {
		w.t.Fatalf("counted %d bytes, there are %d", w.cache.bytes, bytes)
	}
}

func (w *model) checkIndex() {
	w.t.Helper()
	for _, uid := range []string{"owner-a", "owner-b", "none"} {
		for _, namespace := range []string{"", "ns0", "ns1", "ns"} {
			want := w.filter(func(o *object.Object) bool {
				return o.ControlledBy(uid) && (namespace == "" || namespace == o.Namespace())
			})
			if got := w.cache.owned(uid, namespace); !slices.Equal(got, want) {
				w.t.Fatalf("owned by %s in %q: got %v, want %v", uid, namespace, got, want)
			}
		}
	}
	for _, text := range selectors {
		selector := must.Get(labels.Parse(text)).In(w.t)
		for _, namespace := range []string{"", "ns0", "ns1", "ns"} {
			want := w.filter(func(o *object.Object) bool {
				_, owned := o.Controller()
				return !owned && selector.Matches(o.Labels()) && (namespace == "" || namespace == o.Namespace())
			})
			if got := w.cache.orphans(namespace, selector); !slices.Equal(got, want) {
				w.t.Fatalf("orphans in %q with %q: got %v, want %v", namespace, text, got, want)
			}
		}
	}
}

var selectors = []string{"", "tier=front", "tier in (front,back),picked=yes", "tier!=front", "picked", "tier=none", "!tier"}

func (w *model) filter(keep func(*object.Object) bool) []*object.Object {
	var found []*object.Object
	for _, o := range w.cache.objects {
		if keep(o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, object.CompareNames)
	return found
}

// checkSettled checks the state after everything has been delivered.
func (w *model) checkSettled() {
	w.t.Helper()
	want := maps.Clone(w.state)
	maps.DeleteFunc(want, func(_ key, o *object.Object) bool { return !isSelected(o) })
	if !maps.EqualFunc(want, w.cache.objects, func(a, b *object.Object) bool { return a.Version() == b.Version() }) {
		w.t.Fatalf("the API server has %v, the cache %v", want, w.cache.objects)
	}
	if len(w.cache.tombstones)+len(w.cache.pendingWrites) > 0 {
		w.t.Fatalf("remembers %v and %v for nothing", w.cache.tombstones, w.cache.pendingWrites)
	}
	for _, c := range w.history {
		if w.sent[c.version] {
			w.checkNotified(c)
		}
	}
}

// checkNotified checks that all views but the author were notified of a change, or of a later
// one.
func (w *model) checkNotified(c change) {
	w.t.Helper()
	now := w.cache.objects[keyOf(c.after)]
	if now == nil || now.UID() != c.after.UID() {
		return
	}
	for v, notified := range w.notified {
		if v != c.author && !w.deselected(c) && notified[c.after.UID()] < c.version {
			w.t.Fatalf("a view was not notified of version %d of %s", c.version, describe(c.after))
		}
	}
}

// deselected reports whether one of our own writes removed the object from the selection after
// the change.
func (w *model) deselected(c change) bool {
	return slices.ContainsFunc(w.history, func(later change) bool {
		return later.author != nil && later.version > c.version && later.before != nil &&
			later.before.UID() == c.after.UID() && !isSelected(later.after)
	})
}

// testObject describes an object.
type testObject struct {
	key
	uid     string
	version uint64
	labels  map[string]string
	owner   string
	data    string
}

func (o testObject) json() string {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d"`,
		o.name, o.namespace, o.uid, o.version)
	if len(o.labels) > 0 {
		text += `,"labels":{`
		for i, name := range slices.Sorted(maps.Keys(o.labels)) {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf("%q:%q", name, o.labels[name])
		}
		text += "}"
	}
	if o.owner != "" {
		text += fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"v1","kind":"Parent","name":"p","uid":%q,"controller":true}]`, o.owner)
	}
	return text + fmt.Sprintf(`},"data":{"value":%q}}`, o.data)
}

func (o testObject) parse(t testing.TB) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(o.json()))).In(t)
}

func describe(o *object.Object) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s, version %d)", o.Ref(), o.UID(), o.Version())
}

// With a field selector only events count: our own writes neither keep nor add an object.
func TestServerFilteredCache(t *testing.T) {
	at := func(version int) *object.Object {
		return must.Get(object.Parse(fmt.Appendf(nil, `{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"%d"}}`, version))).In(t)
	}
	c, v := newWatchCache(), &View{}
	c.serverFiltered = true
	c.serverUpdated(at(2))
	c.writeReturned(at(5), v, true)
	if got := c.objects[key{"", "a"}]; got == nil || got.Version() != 5 {
		t.Fatalf("our own write is not read: %v", got)
	}
	if notifications := c.serverDeleted(at(4)); len(notifications) != 1 || len(c.objects) != 0 {
		t.Errorf("it left before our write, and is kept: %v", notifications)
	}
	c.writeReturned(at(6), v, true)
	if len(c.objects) != 0 {
		t.Error("a write brought it back")
	}
	c.serverUpdated(at(7))
	if len(c.objects) != 1 {
		t.Error("it came back, and is not here")
	}
	c.replace([]*object.Object{at(3)}, 3)
	c.serverDeleted(at(4))
	c.writeReturned(at(5), v, true)
	if len(c.objects) != 0 {
		t.Error("a write brought it back after the storage was restored")
	}
}

// A write of a new object may overtake the event that the former one of its name was deleted. The writer is notified of
// the deletion, because the object may have belonged to another owner.
func TestWriteOvertakesDeletion(t *testing.T) {
	at := func(uid string, version uint64) *object.Object {
		return testObject{key: key{"ns", "a"}, uid: uid, version: version}.parse(t)
	}
	c, v := newWatchCache(), &View{}
	c.serverUpdated(at("u1", 1))
	deleted := lists.Filter(c.writeReturned(at("u2", 3), v, true), func(n notification) bool { return n.isFor(v) })
	if len(deleted) != 1 || deleted[0].New != nil || deleted[0].Old.UID() != "u1" {
		t.Errorf("the writer is notified of %v", deleted)
	}
	if again := c.serverDeleted(at("u1", 2)); len(again) > 0 {
		t.Errorf("notified again of %v", again)
	}
}
