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
	if !d.options.unrenamed {
		d.rename()
	}
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
	v := c.after
	switch {
	case c.after.gone && watched(c.before), watched(c.after):
	case watched(c.before):
		v = d.asGone(c.after, c.after.number)
	default:
		return
	}
	d.processes[i] = d.processOf(p.view, d.eventsOf(p.events.with(v)), p.keys, p.runs)
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

// restartLate is restart with lists as old as the cache: each is of one version of its kind, the earliest that has all
// that the cache has.
func (d *draft) restartLate(i int) {
	for at := d.lastOwn(i); at >= 0; at = d.lastOwn(i) {
		first, _ := d.processes[i].events.kindOf(d.processes[i].events.all[at].name)
		d.arrive(i, first)
	}
	p := d.processes[i]
	d.processes[i] = d.processOf(p.view, p.events, d.keysOf(nil), nil)
	d.enqueue(i, d.started(i, p.view)...)
}

// lastOwn returns where the last event of an own write is that the cache has; -1 if none is.
func (d *draft) lastOwn(i int) int {
	for at, one := range slices.Backward(d.processes[i].events.all) {
		if one.writers != nil {
			return at
		}
	}
	return -1
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
