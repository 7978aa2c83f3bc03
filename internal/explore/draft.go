package explore

import "slices"

// draft is a state in the making.
type draft struct {
	*worker

	stored    *stored
	processes []*process
	spent     budget
}

func (w *worker) draft(from state) *draft {
	return &draft{worker: w, stored: from.stored, processes: slices.Clone(from.processes.all), spent: from.spent}
}

func (d *draft) finish() state {
	d.rename()
	return state{stored: d.stored, processes: d.processesOf(d.processes), spent: d.spent}
}

// store makes a change of the API server's contents, and sends its events.
func (d *draft) store(after *stored) {
	changed := changes(d.engine, d.stored, after)
	d.stored = after
	for i := range d.processes {
		for _, c := range changed {
			d.send(i, c)
		}
	}
}

// difference is a name whose object changed: after may be the last version.
type difference struct{ before, after *version }

// changes returns how two contents differ. An object that was replaced by another of its name is two differences.
func changes(e *engine, before, after *stored) []difference {
	if before == after {
		return nil
	}
	var all []difference
	for _, now := range after.slots {
		was := before.get(now.name)
		switch {
		case was.version == now.version:
		case now.version == nil:
			all = append(all, difference{was.version, e.asGone(was.version, max(now.written, was.version.number))})
		case was.version != nil && was.born != now.born:
			all = append(all, difference{was.version, e.asGone(was.version, now.version.number)}, difference{nil, now.version})
		default:
			all = append(all, difference{was.version, now.version})
		}
	}
	for _, was := range before.slots {
		if _, kept := after.find(was.name); !kept && was.version != nil {
			all = append(all, difference{was.version, e.asGone(was.version, was.version.number)})
		}
	}
	return all
}

// send queues the event of a change for a process. An object that the watches no longer select is gone for it.
func (d *draft) send(i int, c difference) {
	p := d.processes[i]
	watched := func(v *version) bool { return v != nil && d.worker.processes[i].Watches(v.object) }
	event := c.after
	switch {
	case c.after.gone && watched(c.before), watched(c.after):
	case watched(c.before):
		event = d.asGone(c.after, c.after.number)
	default:
		return
	}
	at, found := find(p.events.versions, event.name)
	for found && at < len(p.events.versions) && p.events.versions[at].name == event.name {
		at++
	}
	d.processes[i] = d.processOf(p.view, d.eventsOf(slices.Insert(slices.Clone(p.events.versions), at, event)), p.keys, p.runs)
}

// observe puts an event, or the result of an own write, into the cache of a process. An older one changes nothing.
func (d *draft) observe(i int, v *version) {
	p := d.processes[i]
	if seen := p.view.get(v.name); seen == v || seen != nil && seen.number > v.number || seen == nil && v.gone {
		return
	}
	d.processes[i] = d.processOf(d.with(p.view, v), p.events, p.keys, p.runs)
}

// enqueue adds items to what a process has to reconcile.
func (d *draft) enqueue(i int, items ...Item) {
	if len(items) == 0 {
		return
	}
	p := d.processes[i]
	d.processes[i] = d.processOf(p.view, p.events, d.keysOf(enqueue(d.worker.processes[i], p.keys.items, items...)), p.runs)
}

// restart ends a process and starts it with a list of what is stored.
func (d *draft) restart(i int) {
	var listed []*version
	for _, at := range d.stored.slots {
		if at.version != nil && d.worker.processes[i].Watches(at.version.object) {
			listed = append(listed, at.version)
		}
	}
	v := d.viewOf(listed)
	d.processes[i] = d.processOf(v, d.eventsOf(nil), d.keysOf(nil), nil)
	d.enqueue(i, d.started(i, v)...)
}

// restartLate is restart with a list that is as old as what the cache had.
func (d *draft) restartLate(i int) {
	p := d.processes[i]
	d.processes[i] = d.processOf(p.view, p.events, d.keysOf(nil), nil)
	d.enqueue(i, d.started(i, p.view)...)
}

// started returns what a process queues that has just listed objects.
func (w *worker) started(i int, v *view) []Item {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.started == nil {
		v.started = map[int][]Item{}
	}
	items, known := v.started[i]
	if !known {
		items = w.processes[i].Start(v.objects())
		v.started[i] = items
	}
	return items
}

// queuedBy returns what an event queues.
func (w *worker) queuedBy(i int, v *view, event *version) []Item {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := delivery{i, event.id}
	items, known := v.delivered[k]
	if known {
		return items
	}
	w.computed.deliveries.Add(1)
	items = w.processes[i].Deliver(v.objects(), Event{Object: event.object, Deleted: event.gone})
	if v.delivered == nil {
		v.delivered = map[delivery][]Item{}
	}
	v.delivered[k] = items
	return items
}
