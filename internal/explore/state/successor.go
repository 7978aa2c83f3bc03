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

// successor is a state in the making.
type successor struct {
	*Worker

	stored  *Contents
	process *process
	spent   Budget
}

func (w *Worker) successor(from State) *successor {
	return &successor{Worker: w, stored: from.Stored, process: from.process, spent: from.Spent}
}

func (s *successor) finish() State {
	s.rename()
	return State{Stored: s.stored, process: s.process, Spent: s.spent}
}

// store makes a change of the API server's contents, and sends its events.
func (s *successor) store(after *Contents) {
	changed := s.Changes(s.stored, after)
	s.stored = after
	for _, c := range changed {
		s.send(c)
	}
}

// send queues the event of a change. An object that the watches no longer select is gone for it.
func (s *successor) send(c Change) {
	p := s.process
	watched := func(v *Version) bool { return v != nil && s.Process.Watches(v.Object) }
	v := c.After
	switch {
	case c.After.Gone && watched(c.Before), watched(c.After):
	case watched(c.Before):
		v = s.asGone(c.After, c.After.number)
	default:
		return
	}
	s.process = s.processOf(p.view, s.eventsOf(p.events.with(v)), p.keys, p.runs)
}

// enqueue adds items to what a process has to reconcile, which are sorted and have one item for each key.
func (s *successor) enqueue(more ...world.Item) {
	if len(more) == 0 {
		return
	}
	p := s.process
	all := slices.Clone(p.keys.items)
	for _, item := range more {
		i, found := slices.BinarySearchFunc(all, item, world.CompareItems)
		if !found {
			all = slices.Insert(all, i, item)
			continue
		}
		failed := all[i].Failed && item.Failed
		all[i] = s.Process.Merge(all[i], item)
		all[i].Failed = failed
	}
	s.process = s.processOf(p.view, p.events, s.keysOf(all), p.runs)
}

// restart ends a process and starts it with a list of what is stored.
func (s *successor) restart() {
	var listed []*Version
	for _, at := range s.stored.Entries {
		if at.Version != nil && s.Process.Watches(at.Version.Object) {
			listed = append(listed, at.Version)
		}
	}
	v := s.viewOf(listed)
	s.process = s.processOf(v, s.eventsOf(nil), s.keysOf(nil), nil)
	s.enqueue(s.itemsAtStart(v)...)
}

// restartLate is restart with lists as old as the cache: each is of one version of its kind, the earliest that has all
// that the cache has.
func (s *successor) restartLate() {
	for at := s.lastOwn(); at >= 0; at = s.lastOwn() {
		first, _ := s.process.events.kindOf(s.process.events.all[at].Name)
		s.arrive(first)
	}
	p := s.process
	s.process = s.processOf(p.view, p.events, s.keysOf(nil), nil)
	s.enqueue(s.itemsAtStart(p.view)...)
}

// lastOwn returns where the last event of an own write is that the cache has; -1 if none is.
func (s *successor) lastOwn() int {
	for at, one := range slices.Backward(s.process.events.all) {
		if one.writers != nil {
			return at
		}
	}
	return -1
}

// allVersions are all that the state refers to: what is stored, what the cache has seen, and what is on its way there.
func (s *successor) allVersions() iter.Seq[*Version] {
	return func(yield func(*Version) bool) {
		for _, at := range s.stored.Entries {
			if at.Version != nil && !yield(at.Version) {
				return
			}
		}
		for _, v := range s.process.view.versions {
			if !yield(v) {
				return
			}
		}
		for _, e := range s.process.events.all {
			if !yield(e.Version) {
				return
			}
		}
	}
}

// replaceVersions replaces each version, of entries that are to be stored too.
func (s *successor) replaceVersions(entries []Entry, by func(*Version) *Version) {
	p := s.process
	seen, coming := slices.Clone(p.view.versions), slices.Clone(p.events.all)
	for i, at := range entries {
		if at.Version != nil {
			entries[i].Version = by(at.Version)
		}
	}
	for i, v := range seen {
		seen[i] = by(v)
	}
	for i, e := range coming {
		coming[i].Version = by(e.Version)
	}
	s.stored = s.storedOf(entries)
	s.process = s.processOf(s.viewOf(seen), s.eventsOf(coming), p.keys, p.runs)
}

// rename makes the state canonical: what differs only by how often objects were written becomes equal. The resource
// versions of an object become ranks among those that anything still refers to. Runs in flight refer to all of them,
// so this waits until there are none.
func (s *successor) rename() {
	if len(s.process.runs) > 0 || slices.ContainsFunc(s.process.keys.items, func(item world.Item) bool { return item.Refers }) {
		return
	}
	s.renameIncarnations()
	numbers := s.numbers()
	entries, changed := slices.Clone(s.stored.Entries), false
	for i, at := range entries {
		all := numbers[at.Name]
		entries[i].written = uint64(len(all))
		areRanks := len(all) == 0 || all[0] == 1 && all[len(all)-1] == uint64(len(all))
		changed = changed || !areRanks || at.written != uint64(len(all))
	}
	if changed {
		s.replaceVersions(entries, func(v *Version) *Version {
			before, _ := slices.BinarySearch(numbers[v.Name], v.number)
			return s.renumbered(v, uint64(before)+1)
		})
	}
}

// numbers returns the resource versions that the state refers to, sorted for each name.
func (s *successor) numbers() map[*Name][]uint64 {
	all := make(map[*Name][]uint64, len(s.stored.Entries))
	for v := range s.allVersions() {
		if i, found := slices.BinarySearch(all[v.Name], v.number); !found {
			all[v.Name] = slices.Insert(all[v.Name], i, v.number)
		}
	}
	return all
}

// renameIncarnations makes UIDs ranks among those of a name that anything refers to. Without it, states would differ by how
// often an object was deleted and created again.
func (s *successor) renameIncarnations() {
	again := func(at Entry) bool { return at.incarnations > 1 || at.incarnations == 1 && at.Version == nil }
	if !slices.ContainsFunc(s.stored.Entries, again) {
		return
	}
	uids := map[string]bool{}
	for v := range s.allVersions() {
		for _, uid := range v.uids {
			uids[uid] = true
		}
	}
	numbers, renamed := s.numbers(), map[string]string{}
	entries := make([]Entry, 0, len(s.stored.Entries))
	for _, at := range s.stored.Entries {
		incarnations := incarnationsOf(at.Name, uids)
		for i, incarnation := range incarnations {
			if incarnation != uint64(i)+1 {
				renamed[uidOf(at.Name, incarnation)] = uidOf(at.Name, uint64(i)+1)
			}
		}
		at.incarnations = uint64(len(incarnations))
		if at.Version != nil || at.incarnations > 0 || len(numbers[at.Name]) > 0 {
			entries = append(entries, at)
		}
	}
	s.replaceVersions(entries, func(v *Version) *Version { return s.withUIDs(v, renamed) })
}

// incarnationsOf returns which objects of a name are referred to, sorted.
func incarnationsOf(n *Name, uids map[string]bool) []uint64 {
	prefix := n.uid.Load()
	if prefix == nil {
		return nil
	}
	var incarnations []uint64
	for uid := range uids {
		if len(uid) != len(*prefix)+apiserver.IncarnationDigits || uid[:len(*prefix)] != *prefix {
			continue
		}
		if incarnation, err := strconv.ParseUint(uid[len(*prefix):], 16, 64); err == nil {
			incarnations = append(incarnations, incarnation)
		}
	}
	slices.Sort(incarnations)
	return incarnations
}

func uidOf(n *Name, incarnation uint64) string {
	return fmt.Sprintf("%s%0*x", *n.uid.Load(), apiserver.IncarnationDigits, incarnation)
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
func (s *successor) deliver(at int) {
	p := s.process
	next := p.events.all[at]
	items := s.queuedBy(p, next)
	s.arrive(at)
	s.enqueue(items...)
	s.confirm()
}

// arrive moves an event into what a process has seen.
func (s *successor) arrive(at int) {
	p := s.process
	rest := slices.Delete(slices.Clone(p.events.all), at, at+1)
	s.process = s.processOf(s.with(p.view, p.events.all[at].Version), s.eventsOf(rest), p.keys, p.runs)
}

// confirm delivers the events of own writes that are the next of their kinds and queue nothing: the cache has them, so
// that nothing depends on when they arrive.
func (s *successor) confirm() {
	confirmed := func(at int) bool {
		p := s.process
		return p.events.all[at].writers != nil && len(s.queuedBy(p, p.events.all[at])) == 0
	}
	for {
		heads := s.process.events.heads()
		at := slices.IndexFunc(heads, confirmed)
		if at < 0 {
			return
		}
		s.arrive(heads[at])
	}
}

// observeWrite puts the result of an own write into the cache: its event is marked, and others who watch the object
// hear of it.
func (s *successor) observeWrite(wrote world.Event) {
	p := s.process
	n := s.nameOf(wrote.Object.Ref())
	at := slices.IndexFunc(p.events.all, func(one event) bool {
		same := one.Name == n && one.Gone == wrote.Deleted && one.Object.UID() == wrote.Object.UID()
		return same && (one.Gone || one.number == wrote.Object.Version())
	})
	if at < 0 {
		return
	}
	queued := s.queuedByWrite(p, p.events.all[at], wrote)
	coming := slices.Clone(p.events.all)
	coming[at].writers = s.writersOf(coming[at].writers, wrote.Writer)
	s.overtake(coming, at)
	s.enqueue(queued...)
}

// overtake removes the events of an object that an own write has overtaken. The last one stays that the cache takes for
// another client's change.
func (s *successor) overtake(coming []event, at int) {
	p, n := s.process, coming[at].Name
	without := func(but *Version) *process {
		kept := slices.DeleteFunc(slices.Clone(coming[:at]), func(e event) bool { return e.Name == n && e.Version != but })
		return s.processOf(p.view, s.eventsOf(slices.Concat(kept, coming[at:])), p.keys, p.runs)
	}
	s.process = without(nil)
	for _, other := range slices.Backward(coming[:at]) {
		if other.Name == n && other.writers == nil && len(s.queuedBy(s.process, other)) > 0 {
			s.process = without(other.Version)
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
	return w.onDelivery(p, delivery{version: next.id}, world.Event{Object: next.Object, Deleted: next.Gone}, w.Process.Deliver)
}

// queuedByWrite returns what an own write queues whose event is still to come.
func (w *Worker) queuedByWrite(p *process, coming event, wrote world.Event) []world.Item {
	k := delivery{version: coming.id, writer: w.writersOf(nil, wrote.Writer).id}
	return w.onDelivery(p, k, wrote, w.Process.Observe)
}

// onDelivery returns what is queued by something that reaches a cache, beside the own writes that it has.
func (w *Worker) onDelivery(p *process, k delivery, e world.Event, deliver func(seen []*object.Object, own []world.Event,
	e world.Event) []world.Item) []world.Item {
	own, v := p.events.ownWrites(), p.view
	k.own = w.eventsOf(own).id
	v.mu.Lock()
	defer v.mu.Unlock()
	items, known := v.delivered[k]
	if known {
		return items
	}
	w.Computed.Deliveries.Add(1)
	items = deliver(v.objects(), writesOf(own), e)
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
