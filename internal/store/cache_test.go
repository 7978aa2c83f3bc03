package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// picked is the label that the model's watch selects by.
const picked = "picked"

// change is one entry of the model API server's history.
type change struct {
	before, after *object.Object // nil: created; nil: deleted
	version       uint64
	author        *View // nil: somebody else
}

// world is a model API server, one watch of it, and views that write.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	history []change
	state   map[key]*object.Object
	version uint64
	uids    int

	sent      map[uint64]bool // versions the watch has been told, be it in a list
	heard     int             // how much of the history the watch has been told
	answers   []func()        // replies to writes that are still on their way
	cache     cache
	writers   []*View
	told      map[*View]map[string]uint64 // newest version or deletion heard, by UID
	observed  map[key]*object.Object      // what a view that never writes makes of its events
	gone      map[string]bool             // UIDs whose removal was told by a writer
	lastShown map[string]uint64
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), cache: newCache(),
		state: map[key]*object.Object{}, observed: map[key]*object.Object{},
		writers: []*View{{}, {}}, told: map[*View]map[string]uint64{},
		gone: map[string]bool{}, sent: map[uint64]bool{}, lastShown: map[string]uint64{},
	}
	for _, v := range w.writers {
		w.told[v] = map[string]uint64{}
	}
	return w
}

func isPicked(o *object.Object) bool { return o != nil && o.Labels().Get(picked) == "yes" }

// TestCacheAgainstModel plays random histories with writes whose replies and
// echoes come in any order, and relists at any moment.
func TestCacheAgainstModel(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
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

func (w *world) step() {
	switch w.rand.IntN(10) {
	case 0, 1:
		w.commit(nil)
	case 2, 3:
		v := w.writers[w.rand.IntN(len(w.writers))]
		reply := w.commit(v)
		w.answers = append(w.answers, func() { w.answer(v, reply) })
	case 4, 5:
		w.deliverAnswer()
	case 6, 7, 8:
		w.deliverEvent()
	case 9:
		if w.rand.IntN(5) == 0 {
			w.relist(w.heard + w.rand.IntN(len(w.history)-w.heard+1))
		}
	}
}

func (w *world) drain() {
	for len(w.answers) > 0 {
		w.deliverAnswer()
	}
	for w.heard < len(w.history) {
		w.deliverEvent()
	}
	w.cache.heard(w.version)
}

// commit makes one random change at the API server.
func (w *world) commit(author *View) change {
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

func (w *world) make(name key, uid string) *object.Object {
	o := thing{key: name, uid: uid, version: w.version, labels: map[string]string{
		picked: pick(w.rand, "yes", "yes", "yes", "no"),
		"tier": pick(w.rand, "front", "back"),
	}}
	if w.rand.IntN(2) == 0 {
		o.owner = pick(w.rand, "mother", "father")
	}
	return o.parse(w.t)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// answer is what the engine does with the reply to a write.
func (w *world) answer(v *View, c change) {
	if c.after == nil {
		// One the watch has not brought yet may still come and go.
		if now := w.cache.objects[keyOf(c.before)]; now != nil && now.UID() == c.before.UID() && !w.flickers(now.UID()) {
			w.gone[c.before.UID()] = true
		}
		w.tell(w.cache.removed(c.before, v))
		return
	}
	w.tell(w.cache.wrote(c.after, v, isPicked(c.after)))
	if now := w.cache.objects[keyOf(c.after)]; now != nil && now.Version() < c.after.Version() {
		w.t.Fatalf("wrote version %d, then read %d", c.after.Version(), now.Version())
	}
}

// flickers says that the watch will bring the object's leaving of the selection
// before its end, and may take one for the other.
func (w *world) flickers(uid string) bool {
	return slices.ContainsFunc(w.history[w.heard:], func(c change) bool {
		return c.after != nil && c.after.UID() == uid && !isPicked(c.after)
	})
}

func (w *world) deliverAnswer() {
	if len(w.answers) == 0 {
		return
	}
	at := w.rand.IntN(len(w.answers))
	answer := w.answers[at]
	w.answers = slices.Delete(w.answers, at, at+1)
	answer()
}

// deliverEvent passes on the next entry of the history as a watch would.
func (w *world) deliverEvent() {
	if w.heard == len(w.history) {
		return
	}
	c := w.history[w.heard]
	w.heard++
	switch {
	case isPicked(c.after):
		w.sent[c.version] = true
		w.tell(w.cache.observed(c.after))
	case isPicked(c.before):
		w.tell(w.cache.deleted(atVersion(w.t, c.before, c.version)))
	case w.rand.IntN(2) == 0:
		w.cache.heard(c.version)
	}
}

func (w *world) relist(upTo int) {
	state := map[key]*object.Object{}
	for _, c := range w.history[:upTo] {
		if c.after == nil {
			delete(state, keyOf(c.before))
		} else {
			state[keyOf(c.after)] = c.after
		}
	}
	list := slices.DeleteFunc(slices.Collect(maps.Values(state)), func(o *object.Object) bool { return !isPicked(o) })
	for _, o := range list {
		w.sent[o.Version()] = true
	}
	w.heard = upTo
	version := uint64(0)
	if upTo > 0 {
		version = w.history[upTo-1].version
	}
	w.tell(w.cache.replace(list, max(version, w.cache.seen)))
}

func (w *world) tell(notices []notice) {
	for _, n := range notices {
		for v, told := range w.told {
			if n.isFor(v) {
				note(told, n.Event)
			}
		}
		if n.only == nil {
			w.observe(n.Event)
		}
	}
}

// note remembers the newest version a view has heard of.
func note(told map[string]uint64, e Event) {
	if e.Old != nil && (e.New == nil || e.New.UID() != e.Old.UID()) {
		told[e.Old.UID()] = ^uint64(0)
	}
	if e.New != nil {
		told[e.New.UID()] = max(told[e.New.UID()], e.New.Version())
	}
}

// observe checks that events follow on one another.
func (w *world) observe(e Event) {
	o := e.New
	if o == nil {
		o = e.Old
	}
	if w.observed[keyOf(o)] != e.Old {
		w.t.Fatalf("event starts from %v, told before was %v", show(e.Old), show(w.observed[keyOf(o)]))
	}
	if e.New == nil {
		delete(w.observed, keyOf(o))
	} else {
		w.observed[keyOf(o)] = e.New
	}
}

func (w *world) check() {
	w.t.Helper()
	if !maps.Equal(w.observed, w.cache.objects) {
		w.t.Fatalf("events lead to %v, the cache holds %v", w.observed, w.cache.objects)
	}
	bytes := 0
	for _, o := range w.cache.objects {
		bytes += o.Size()
		if w.gone[o.UID()] {
			w.t.Fatalf("%s is back after it was removed", show(o))
		}
		if o.Version() < w.lastShown[o.UID()] {
			w.t.Fatalf("%s goes back from version %d", show(o), w.lastShown[o.UID()])
		}
		w.lastShown[o.UID()] = o.Version()
	}
	if bytes != w.cache.bytes {
		w.t.Fatalf("counted %d bytes, there are %d", w.cache.bytes, bytes)
	}
}

func (w *world) checkIndex() {
	w.t.Helper()
	for _, uid := range []string{"mother", "father", "nobody"} {
		want := w.filter(func(o *object.Object) bool { return o.ControlledBy(uid) })
		if got := w.cache.index[ownedBy(uid)]; !slices.Equal(got, want) {
			w.t.Fatalf("owned by %s: got %v, want %v", uid, got, want)
		}
	}
	for _, text := range selectors {
		selector, err := labels.Parse(text)
		if err != nil {
			w.t.Fatal(err)
		}
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

func (w *world) filter(keep func(*object.Object) bool) []*object.Object {
	var found []*object.Object
	for _, o := range w.cache.objects {
		if keep(o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, byName)
	return found
}

// checkSettled holds when everything has been delivered.
func (w *world) checkSettled() {
	w.t.Helper()
	want := maps.Clone(w.state)
	maps.DeleteFunc(want, func(_ key, o *object.Object) bool { return !isPicked(o) })
	if !maps.EqualFunc(want, w.cache.objects, func(a, b *object.Object) bool { return a.Version() == b.Version() }) {
		w.t.Fatalf("the API server has %v, the cache %v", want, w.cache.objects)
	}
	if len(w.cache.past)+len(w.cache.writes) > 0 {
		w.t.Fatalf("remembers %v and %v for nothing", w.cache.past, w.cache.writes)
	}
	for _, c := range w.history {
		if w.sent[c.version] {
			w.checkHeard(c)
		}
	}
}

// checkHeard holds a change against what the views were told: all but its author
// must know of it, or of something later. That an object has gone says all.
func (w *world) checkHeard(c change) {
	w.t.Helper()
	now := w.cache.objects[keyOf(c.after)]
	if now == nil || now.UID() != c.after.UID() {
		return
	}
	for v, told := range w.told {
		if v != c.author && !w.dismissed(c) && told[c.after.UID()] < c.version {
			w.t.Fatalf("a view never heard of version %d of %s", c.version, show(c.after))
		}
	}
}

// dismissed says that one of our own writes put the object out of the selection
// after the change: there was a time when it was not to be seen at all.
func (w *world) dismissed(c change) bool {
	return slices.ContainsFunc(w.history, func(later change) bool {
		return later.author != nil && later.version > c.version && later.before != nil &&
			later.before.UID() == c.after.UID() && !isPicked(later.after)
	})
}

// thing describes an object for a test.
type thing struct {
	key
	uid     string
	version uint64
	labels  map[string]string
	owner   string
	data    string
}

func (o thing) json() string {
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

func (o thing) parse(t testing.TB) *object.Object {
	t.Helper()
	parsed, err := object.Parse([]byte(o.json()))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// atVersion is what a watch sends of an object that left its selection.
func atVersion(t testing.TB, o *object.Object, version uint64) *object.Object {
	t.Helper()
	moved, err := o.With(fmt.Appendf(nil, `"%d"`, version), "metadata", "resourceVersion")
	if err != nil {
		t.Fatal(err)
	}
	return moved
}

func show(o *object.Object) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s, version %d)", o.Ref(), o.UID(), o.Version())
}

// Where only the API server knows what is selected, its word counts: an object that
// left is not kept, and not brought back, by our own writes.
func TestBlindCache(t *testing.T) {
	at := func(version int) *object.Object {
		o, err := object.Parse(fmt.Appendf(nil, `{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"%d"}}`, version))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	c, v := newCache(), &View{}
	c.blind = true
	c.observed(at(2))
	c.wrote(at(5), v, true)
	if got := c.objects[key{"", "a"}]; got == nil || got.Version() != 5 {
		t.Fatalf("our own write is not read: %v", got)
	}
	if notices := c.deleted(at(4)); len(notices) != 1 || len(c.objects) != 0 {
		t.Errorf("it left before our write, and is kept: %v", notices)
	}
	c.wrote(at(6), v, true)
	if len(c.objects) != 0 {
		t.Error("a write brought it back")
	}
	c.observed(at(7))
	if len(c.objects) != 1 {
		t.Error("it came back, and is not here")
	}
}
