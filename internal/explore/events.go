package explore

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// kindOf returns where the events of a kind begin and end.
func (e *events) kindOf(n *name) (first, end int) {
	first, _ = slices.BinarySearchFunc(e.all, n, func(one event, n *name) int { return compareKinds(one.name.ref, n.ref) })
	for end = first; end < len(e.all) && compareKinds(e.all[end].name.ref, n.ref) == 0; end++ {
	}
	return first, end
}

// next returns where the next event of an object is; -1 if none is.
func (e *events) next(n *name) int {
	return slices.IndexFunc(e.all, func(one event) bool { return one.name == n })
}

// with returns the events with one more, the last of its kind: a watch never reorders what it sends.
func (e *events) with(v *version) []event {
	_, end := e.kindOf(v.name)
	return slices.Insert(slices.Clone(e.all), end, event{version: v})
}

// heads are where the next event of each kind is.
func (e *events) heads() []int {
	var all []int
	for at := 0; at < len(e.all); _, at = e.kindOf(e.all[at].name) {
		all = append(all, at)
	}
	return all
}

// own returns the events of own writes that a cache already has.
func (e *events) own() []event {
	var all []event
	for _, one := range e.all {
		if one.writers != nil {
			all = append(all, one)
		}
	}
	return all
}

// cached returns what the cache of a process has: what events have made, and own writes.
func (e *engine) cached(p *process) *view {
	v := p.view
	for _, one := range p.events.own() {
		v = e.with(v, one.version)
	}
	return v
}

// deliver passes the next event of a kind to a cache, and events of own writes that come next and bring nothing new.
func (d *draft) deliver(i, at int) {
	p := d.processes[i]
	next := p.events.all[at]
	items := d.queuedBy(i, p, next)
	d.arrive(i, at)
	d.enqueue(i, items...)
	d.confirm(i)
}

// arrive moves an event into what a process has seen.
func (d *draft) arrive(i, at int) {
	p := d.processes[i]
	rest := slices.Delete(slices.Clone(p.events.all), at, at+1)
	d.processes[i] = d.processOf(d.with(p.view, p.events.all[at].version), d.eventsOf(rest), p.keys, p.runs)
}

// confirm delivers the events of own writes that are the next of their kinds and queue nothing: the cache has them, so
// that nothing depends on when they arrive.
func (d *draft) confirm(i int) {
	confirmed := func(at int) bool {
		p := d.processes[i]
		return p.events.all[at].writers != nil && len(d.queuedBy(i, p, p.events.all[at])) == 0
	}
	for {
		heads := d.processes[i].events.heads()
		at := slices.IndexFunc(heads, confirmed)
		if at < 0 {
			return
		}
		d.arrive(i, heads[at])
	}
}

// observeWrite puts the result of an own write into the cache: its event is marked, and others who watch the object
// hear of it.
func (d *draft) observeWrite(i int, wrote Event) {
	p := d.processes[i]
	n := d.nameOf(wrote.Object.Ref())
	at := slices.IndexFunc(p.events.all, func(one event) bool {
		same := one.name == n && one.gone == wrote.Deleted && one.object.UID() == wrote.Object.UID()
		return same && (one.gone || one.number == wrote.Object.Version())
	})
	if at < 0 {
		return
	}
	queued := d.queuedByWrite(i, p, p.events.all[at], wrote)
	coming := slices.Clone(p.events.all)
	coming[at].writers = d.writersOf(coming[at].writers, wrote.Writer)
	d.overtake(i, coming, at)
	d.enqueue(i, queued...)
}

// overtake removes the events of an object that an own write has overtaken. The last one stays that the cache takes for
// another client's change.
func (d *draft) overtake(i int, coming []event, at int) {
	p, n := d.processes[i], coming[at].name
	overtaken := func(e event) bool { return e.name == n }
	kept := slices.DeleteFunc(slices.Clone(coming[:at]), overtaken)
	own := d.processOf(p.view, d.eventsOf(slices.Concat(kept, coming[at:])), p.keys, p.runs)
	d.processes[i] = own
	for before := at - 1; before >= 0; before-- {
		foreign := coming[before]
		if !overtaken(foreign) || foreign.writers != nil || len(d.queuedBy(i, own, foreign)) == 0 {
			continue
		}
		kept = slices.DeleteFunc(slices.Clone(coming[:at]), func(e event) bool { return overtaken(e) && e.version != foreign.version })
		d.processes[i] = d.processOf(p.view, d.eventsOf(slices.Concat(kept, coming[at:])), p.keys, p.runs)
		return
	}
}

// writersOf returns writers with one more.
func (e *engine) writersOf(before *writers, by any) *writers {
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
func (w *worker) queuedBy(i int, p *process, next event) []Item {
	own := p.events.own()
	return w.delivered(p.view, delivery{process: i, version: next.id, own: w.eventsOf(own).id}, func(seen []*object.Object) []Item {
		return w.processes[i].Deliver(seen, writesOf(own), Event{Object: next.object, Deleted: next.gone})
	})
}

// queuedByWrite returns what an own write queues whose event is still to come.
func (w *worker) queuedByWrite(i int, p *process, coming event, wrote Event) []Item {
	own := p.events.own()
	k := delivery{process: i, version: coming.id, own: w.eventsOf(own).id, writer: w.writersOf(nil, wrote.Writer).id}
	return w.delivered(p.view, k, func(seen []*object.Object) []Item { return w.processes[i].Observe(seen, writesOf(own), wrote) })
}

// delivered returns what is queued by something that reaches a cache.
func (w *worker) delivered(v *view, k delivery, deliver func(seen []*object.Object) []Item) []Item {
	v.mu.Lock()
	defer v.mu.Unlock()
	items, known := v.delivered[k]
	if known {
		return items
	}
	w.computed.deliveries.Add(1)
	items = deliver(v.objects())
	if v.delivered == nil {
		v.delivered = map[delivery][]Item{}
	}
	v.delivered[k] = items
	return items
}

// writesOf returns own writes, once for each of their writers.
func writesOf(own []event) []Event {
	var all []Event
	for _, one := range own {
		for _, by := range one.writers.all {
			all = append(all, Event{Object: one.object, Deleted: one.gone, Writer: by})
		}
	}
	return all
}
