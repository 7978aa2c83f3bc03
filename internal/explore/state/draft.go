package state

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// draft is a state in the making.
type draft struct {
	*Worker

	stored  *Contents
	process *process
	spent   Budget
}

func (w *Worker) draft(from State) *draft {
	return &draft{Worker: w, stored: from.Stored, process: from.process, spent: from.Spent}
}

func (d *draft) finish() State {
	d.rename()
	return State{Stored: d.stored, process: d.process, Spent: d.spent}
}

// store makes a change of the API server's contents, and sends its events.
func (d *draft) store(after *Contents) {
	changed := d.Changes(d.stored, after)
	d.stored = after
	for _, c := range changed {
		d.send(c)
	}
}

// send queues the event of a change. An object that the watches no longer select is gone for it.
func (d *draft) send(c Change) {
	p := d.process
	watched := func(v *Version) bool { return v != nil && d.Process.Watches(v.Object) }
	v := c.After
	switch {
	case c.After.Gone && watched(c.Before), watched(c.After):
	case watched(c.Before):
		v = d.asGone(c.After, c.After.number)
	default:
		return
	}
	d.process = d.processOf(p.view, d.eventsOf(p.events.with(v)), p.keys, p.runs)
}

// enqueue adds items to what a process has to reconcile, which are sorted and have one item for each key.
func (d *draft) enqueue(more ...world.Item) {
	if len(more) == 0 {
		return
	}
	p := d.process
	all := slices.Clone(p.keys.items)
	for _, item := range more {
		i, found := slices.BinarySearchFunc(all, item, world.CompareItems)
		if !found {
			all = slices.Insert(all, i, item)
			continue
		}
		failed := all[i].Failed && item.Failed
		all[i] = d.Process.Merge(all[i], item)
		all[i].Failed = failed
	}
	d.process = d.processOf(p.view, p.events, d.keysOf(all), p.runs)
}

// restart ends a process and starts it with a list of what is stored.
func (d *draft) restart() {
	var listed []*Version
	for _, at := range d.stored.Slots {
		if at.Version != nil && d.Process.Watches(at.Version.Object) {
			listed = append(listed, at.Version)
		}
	}
	v := d.viewOf(listed)
	d.process = d.processOf(v, d.eventsOf(nil), d.keysOf(nil), nil)
	d.enqueue(d.itemsAtStart(v)...)
}

// restartLate is restart with lists as old as the cache: each is of one version of its kind, the earliest that has all
// that the cache has.
func (d *draft) restartLate() {
	for at := d.lastOwn(); at >= 0; at = d.lastOwn() {
		first, _ := d.process.events.kindOf(d.process.events.all[at].Name)
		d.arrive(first)
	}
	p := d.process
	d.process = d.processOf(p.view, p.events, d.keysOf(nil), nil)
	d.enqueue(d.itemsAtStart(p.view)...)
}

// lastOwn returns where the last event of an own write is that the cache has; -1 if none is.
func (d *draft) lastOwn() int {
	for at, one := range slices.Backward(d.process.events.all) {
		if one.writers != nil {
			return at
		}
	}
	return -1
}

// versions are all that the state refers to: what is stored, what the cache has seen, and what is on its way there.
func (d *draft) versions() iter.Seq[*Version] {
	return func(yield func(*Version) bool) {
		for _, at := range d.stored.Slots {
			if at.Version != nil && !yield(at.Version) {
				return
			}
		}
		for _, v := range d.process.view.versions {
			if !yield(v) {
				return
			}
		}
		for _, e := range d.process.events.all {
			if !yield(e.Version) {
				return
			}
		}
	}
}

// replaceVersions replaces each version, of slots that are to be stored too.
func (d *draft) replaceVersions(slots []Slot, by func(*Version) *Version) {
	p := d.process
	seen, coming := slices.Clone(p.view.versions), slices.Clone(p.events.all)
	for i, at := range slots {
		if at.Version != nil {
			slots[i].Version = by(at.Version)
		}
	}
	for i, v := range seen {
		seen[i] = by(v)
	}
	for i, e := range coming {
		coming[i].Version = by(e.Version)
	}
	d.stored = d.storedOf(slots)
	d.process = d.processOf(d.viewOf(seen), d.eventsOf(coming), p.keys, p.runs)
}

// rename makes the state canonical: what differs only by how often objects were written becomes equal. The resource
// versions of an object become ranks among those that anything still refers to. Runs in flight refer to all of them,
// so this waits until there are none.
func (d *draft) rename() {
	if len(d.process.runs) > 0 || slices.ContainsFunc(d.process.keys.items, func(item world.Item) bool { return item.Refers }) {
		return
	}
	d.renameBirths()
	numbers := d.numbers()
	slots, changed := slices.Clone(d.stored.Slots), false
	for i, at := range slots {
		all := numbers[at.Name]
		slots[i].written = uint64(len(all))
		areRanks := len(all) == 0 || all[0] == 1 && all[len(all)-1] == uint64(len(all))
		changed = changed || !areRanks || at.written != uint64(len(all))
	}
	if changed {
		d.replaceVersions(slots, func(v *Version) *Version {
			before, _ := slices.BinarySearch(numbers[v.Name], v.number)
			return d.renumbered(v, uint64(before)+1)
		})
	}
}

// numbers returns the resource versions that the state refers to, sorted for each name.
func (d *draft) numbers() map[*Name][]uint64 {
	all := make(map[*Name][]uint64, len(d.stored.Slots))
	for v := range d.versions() {
		if i, found := slices.BinarySearch(all[v.Name], v.number); !found {
			all[v.Name] = slices.Insert(all[v.Name], i, v.number)
		}
	}
	return all
}

// renameBirths makes UIDs ranks among those of a name that anything refers to. Without it, states would differ by how
// often an object was deleted and created again.
func (d *draft) renameBirths() {
	again := func(at Slot) bool { return at.born > 1 || at.born == 1 && at.Version == nil }
	if !slices.ContainsFunc(d.stored.Slots, again) {
		return
	}
	uids := map[string]bool{}
	for v := range d.versions() {
		for _, uid := range v.uids {
			uids[uid] = true
		}
	}
	numbers, renamed := d.numbers(), map[string]string{}
	slots := make([]Slot, 0, len(d.stored.Slots))
	for _, at := range d.stored.Slots {
		births := birthsOf(at.Name, uids)
		for i, birth := range births {
			if birth != uint64(i)+1 {
				renamed[uidOf(at.Name, birth)] = uidOf(at.Name, uint64(i)+1)
			}
		}
		at.born = uint64(len(births))
		if at.Version != nil || at.born > 0 || len(numbers[at.Name]) > 0 {
			slots = append(slots, at)
		}
	}
	d.replaceVersions(slots, func(v *Version) *Version { return d.withUIDs(v, renamed) })
}

// birthsOf returns which objects of a name are referred to, sorted.
func birthsOf(n *Name, uids map[string]bool) []uint64 {
	prefix := n.uid.Load()
	if prefix == nil {
		return nil
	}
	var births []uint64
	for uid := range uids {
		if len(uid) != len(*prefix)+birthSize || uid[:len(*prefix)] != *prefix {
			continue
		}
		if birth, err := strconv.ParseUint(uid[len(*prefix):], 16, 64); err == nil {
			births = append(births, birth)
		}
	}
	slices.Sort(births)
	return births
}

func uidOf(n *Name, birth uint64) string {
	return fmt.Sprintf("%s%0*x", *n.uid.Load(), birthSize, birth)
}

// withUIDs returns a version with other UIDs. They change in one pass from the lowest, so that no new one is replaced.
func (e *Space) withUIDs(v *Version, renamed map[string]string) *Version {
	if !slices.ContainsFunc(v.uids, func(uid string) bool { return renamed[uid] != "" }) {
		return v
	}
	data := v.Object.JSONWithManagedFields()
	old := slices.Compact(slices.Sorted(slices.Values(v.uids)))
	for _, uid := range old {
		if to := renamed[uid]; to != "" {
			data = bytes.ReplaceAll(data, []byte(uid), []byte(to))
		}
	}
	o, err := object.ParseWithManagedFields(data, v.Object.APIVersion(), v.Object.Kind())
	if err != nil {
		panic("rename the UIDs of " + v.Name.Ref.String() + ": " + err.Error()) // It was parsed before.
	}
	return e.versionOf(o, v.Gone)
}

// kindOf returns where the events of a kind begin and end.
func (e *events) kindOf(n *Name) (first, end int) {
	first, _ = slices.BinarySearchFunc(e.all, n, func(one event, n *Name) int { return apiserver.CompareKinds(one.Name.Ref, n.Ref) })
	for end = first; end < len(e.all) && apiserver.CompareKinds(e.all[end].Name.Ref, n.Ref) == 0; end++ {
	}
	return first, end
}

// next returns where the next event of an object is; -1 if none is.
func (e *events) next(n *Name) int {
	return slices.IndexFunc(e.all, func(one event) bool { return one.Name == n })
}

// with returns the events with one more, the last of its kind: a watch never reorders what it sends.
func (e *events) with(v *Version) []event {
	_, end := e.kindOf(v.Name)
	return slices.Insert(slices.Clone(e.all), end, event{Version: v})
}

// heads are where the next event of each kind is.
func (e *events) heads() []int {
	var all []int
	for at := 0; at < len(e.all); _, at = e.kindOf(e.all[at].Name) {
		all = append(all, at)
	}
	return all
}

// ownWrites returns the events of own writes that a cache already has.
func (e *events) ownWrites() []event {
	return lists.Filter(e.all, func(one event) bool { return one.writers != nil })
}

// cached returns what the cache of a process has: what events have made, and own writes.
func (e *Space) cached(p *process) *view {
	v := p.view
	for _, one := range p.events.ownWrites() {
		v = e.with(v, one.Version)
	}
	return v
}

// deliver passes the next event of a kind to a cache, and events of own writes that come next and bring nothing new.
func (d *draft) deliver(at int) {
	p := d.process
	next := p.events.all[at]
	items := d.queuedBy(p, next)
	d.arrive(at)
	d.enqueue(items...)
	d.confirm()
}

// arrive moves an event into what a process has seen.
func (d *draft) arrive(at int) {
	p := d.process
	rest := slices.Delete(slices.Clone(p.events.all), at, at+1)
	d.process = d.processOf(d.with(p.view, p.events.all[at].Version), d.eventsOf(rest), p.keys, p.runs)
}

// confirm delivers the events of own writes that are the next of their kinds and queue nothing: the cache has them, so
// that nothing depends on when they arrive.
func (d *draft) confirm() {
	confirmed := func(at int) bool {
		p := d.process
		return p.events.all[at].writers != nil && len(d.queuedBy(p, p.events.all[at])) == 0
	}
	for {
		heads := d.process.events.heads()
		at := slices.IndexFunc(heads, confirmed)
		if at < 0 {
			return
		}
		d.arrive(heads[at])
	}
}

// observeWrite puts the result of an own write into the cache: its event is marked, and others who watch the object
// hear of it.
func (d *draft) observeWrite(wrote world.Event) {
	p := d.process
	n := d.nameOf(wrote.Object.Ref())
	at := slices.IndexFunc(p.events.all, func(one event) bool {
		same := one.Name == n && one.Gone == wrote.Deleted && one.Object.UID() == wrote.Object.UID()
		return same && (one.Gone || one.number == wrote.Object.Version())
	})
	if at < 0 {
		return
	}
	queued := d.queuedByWrite(p, p.events.all[at], wrote)
	coming := slices.Clone(p.events.all)
	coming[at].writers = d.writersOf(coming[at].writers, wrote.Writer)
	d.overtake(coming, at)
	d.enqueue(queued...)
}

// overtake removes the events of an object that an own write has overtaken. The last one stays that the cache takes for
// another client's change.
func (d *draft) overtake(coming []event, at int) {
	p, n := d.process, coming[at].Name
	without := func(but *Version) *process {
		kept := slices.DeleteFunc(slices.Clone(coming[:at]), func(e event) bool { return e.Name == n && e.Version != but })
		return d.processOf(p.view, d.eventsOf(slices.Concat(kept, coming[at:])), p.keys, p.runs)
	}
	d.process = without(nil)
	for _, other := range slices.Backward(coming[:at]) {
		if other.Name == n && other.writers == nil && len(d.queuedBy(d.process, other)) > 0 {
			d.process = without(other.Version)
			return
		}
	}
}

// writersOf returns writers with one more.
func (e *Space) writersOf(before *writers, by any) *writers {
	if before != nil && slices.Contains(before.all, by) {
		return before // It has written the same again.
	}
	k := written{before, by}
	if known, found := e.writes.Load(k); found {
		return known.(*writers)
	}
	next := &writers{id: e.writers.Add(1)}
	if before != nil {
		next.all = slices.Clone(before.all)
	}
	next.all = append(next.all, by)
	known, _ := e.writes.LoadOrStore(k, next)
	return known.(*writers)
}

// queuedBy returns what an event queues.
func (w *Worker) queuedBy(p *process, next event) []world.Item {
	own := p.events.ownWrites()
	return w.onDelivery(p.view, delivery{version: next.id, own: w.eventsOf(own).id}, func(seen []*object.Object) []world.Item {
		return w.Process.Deliver(seen, writesOf(own), world.Event{Object: next.Object, Deleted: next.Gone})
	})
}

// queuedByWrite returns what an own write queues whose event is still to come.
func (w *Worker) queuedByWrite(p *process, coming event, wrote world.Event) []world.Item {
	own := p.events.ownWrites()
	k := delivery{version: coming.id, own: w.eventsOf(own).id, writer: w.writersOf(nil, wrote.Writer).id}
	return w.onDelivery(p.view, k, func(seen []*object.Object) []world.Item { return w.Process.Observe(seen, writesOf(own), wrote) })
}

// onDelivery returns what is queued by something that reaches a cache.
func (w *Worker) onDelivery(v *view, k delivery, deliver func(seen []*object.Object) []world.Item) []world.Item {
	v.mu.Lock()
	defer v.mu.Unlock()
	items, known := v.delivered[k]
	if known {
		return items
	}
	w.Computed.Deliveries.Add(1)
	items = deliver(v.objects())
	if v.delivered == nil {
		v.delivered = map[delivery][]world.Item{}
	}
	v.delivered[k] = items
	return items
}

// writesOf returns own writes, once for each of their writers.
func writesOf(own []event) []world.Event {
	var all []world.Event
	for _, one := range own {
		for _, by := range one.writers.all {
			all = append(all, world.Event{Object: one.Object, Deleted: one.Gone, Writer: by})
		}
	}
	return all
}
