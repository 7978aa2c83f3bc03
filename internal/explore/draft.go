package explore

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	if !d.Unrenamed {
		d.rename()
	}
	return state{stored: d.stored, processes: d.processesOf(d.processes), spent: d.spent}
}

// store makes a change of the API server's contents, and sends its events.
func (d *draft) store(after *stored) {
	changed := d.changes(d.stored, after)
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
func (e *engine) changes(before, after *stored) []difference {
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

// rename makes the state canonical: what differs only by how often objects were written becomes equal. The resource
// versions of an object become ranks among those that anything still refers to. Runs in flight refer to all of them,
// so this waits until there are none.
func (d *draft) rename() {
	for _, p := range d.processes {
		if len(p.runs) > 0 || refers(p.keys.items) {
			return
		}
	}
	d.renameBirths()
	slots, changed := d.stored.slots, false
	for i, at := range d.stored.slots {
		numbers := d.numbers(at)
		if isRanks(numbers) && (len(numbers) == 0 || at.written == numbers[len(numbers)-1]) && (len(numbers) > 0 || at.written == 0) {
			continue
		}
		if !changed {
			slots, changed = slices.Clone(slots), true
		}
		d.renameEvents(at.name, numbers)
		slots[i].written = uint64(len(numbers))
		if at.version != nil {
			slots[i].version = d.renumbered(at.version, rank(numbers, at.version.number))
		}
	}
	if changed {
		d.stored = d.storedOf(slots)
	}
}

// numbers returns the resource versions of an object that the state refers to, sorted.
func (d *draft) numbers(at slot) []uint64 {
	all := make([]uint64, 0, 8)
	add := func(v *version) {
		if i, found := slices.BinarySearch(all, v.number); !found {
			all = slices.Insert(all, i, v.number)
		}
	}
	if at.version != nil {
		add(at.version)
	}
	for _, p := range d.processes {
		if v := p.view.get(at.name); v != nil {
			add(v)
		}
		for _, e := range p.events.all {
			if e.name == at.name {
				add(e.version)
			}
		}
	}
	return all
}

func isRanks(numbers []uint64) bool {
	return len(numbers) == 0 || numbers[0] == 1 && numbers[len(numbers)-1] == uint64(len(numbers))
}

func rank(numbers []uint64, number uint64) uint64 {
	i, _ := slices.BinarySearch(numbers, number)
	return uint64(i) + 1
}

// renameEvents renames the versions of an object in the caches and on their way there.
func (d *draft) renameEvents(n *name, numbers []uint64) {
	for i, p := range d.processes {
		seen, coming := p.view, slices.Clone(p.events.all)
		if v := seen.get(n); v != nil {
			seen = d.with(seen, d.renumbered(v, rank(numbers, v.number)))
		}
		for at, e := range coming {
			if e.name == n {
				coming[at].version = d.renumbered(e.version, rank(numbers, e.number))
			}
		}
		d.processes[i] = d.processOf(seen, d.eventsOf(coming), p.keys, p.runs)
	}
}

// birthSize is how many digits at the end of a UID count the objects that had the name.
const birthSize = 12

// renameBirths makes UIDs ranks among those of a name that anything refers to. Without it, states would differ by how
// often an object was deleted and created again.
func (d *draft) renameBirths() {
	reborn := false
	for _, at := range d.stored.slots {
		reborn = reborn || at.born > 1 || at.born == 1 && at.version == nil
	}
	if !reborn {
		return
	}
	uids := d.uids()
	renamed := map[string]string{}
	slots := make([]slot, 0, len(d.stored.slots))
	for _, at := range d.stored.slots {
		births := birthsOf(at.name, uids)
		for i, birth := range births {
			if birth != uint64(i)+1 {
				renamed[uidOf(at.name, birth)] = uidOf(at.name, uint64(i)+1)
			}
		}
		at.born = uint64(len(births))
		if at.version != nil || at.born > 0 || len(d.numbers(at)) > 0 {
			slots = append(slots, at)
		}
	}
	d.stored = d.storedOf(slots)
	if len(renamed) > 0 {
		d.renameUIDs(renamed)
	}
}

// uids returns the UIDs that anything refers to.
func (d *draft) uids() map[string]bool {
	all := map[string]bool{}
	add := func(v *version) {
		for _, uid := range v.uids {
			all[uid] = true
		}
	}
	for _, at := range d.stored.slots {
		if at.version != nil {
			add(at.version)
		}
	}
	for _, p := range d.processes {
		for _, v := range p.view.versions {
			add(v)
		}
		for _, v := range p.events.all {
			add(v.version)
		}
	}
	return all
}

// birthsOf returns which objects of a name are referred to, sorted.
func birthsOf(n *name, uids map[string]bool) []uint64 {
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

func uidOf(n *name, birth uint64) string {
	return fmt.Sprintf("%s%0*x", *n.uid.Load(), birthSize, birth)
}

// renameUIDs replaces UIDs everywhere.
func (d *draft) renameUIDs(renamed map[string]string) {
	slots := slices.Clone(d.stored.slots)
	for i, at := range slots {
		if at.version != nil {
			slots[i].version = d.withUIDs(at.version, renamed)
		}
	}
	d.stored = d.storedOf(slots)
	for i, p := range d.processes {
		seen, coming := slices.Clone(p.view.versions), slices.Clone(p.events.all)
		for j := range seen {
			seen[j] = d.withUIDs(seen[j], renamed)
		}
		for j := range coming {
			coming[j].version = d.withUIDs(coming[j].version, renamed)
		}
		d.processes[i] = d.processOf(d.viewOf(seen), d.eventsOf(coming), p.keys, p.runs)
	}
}

// withUIDs returns a version with other UIDs. They change in one pass from the lowest, so that no new one is replaced.
func (e *engine) withUIDs(v *version, renamed map[string]string) *version {
	if !slices.ContainsFunc(v.uids, func(uid string) bool { return renamed[uid] != "" }) {
		return v
	}
	data := v.object.JSONWithManagedFields()
	old := slices.Compact(slices.Sorted(slices.Values(v.uids)))
	for _, uid := range old {
		if to := renamed[uid]; to != "" {
			data = bytes.ReplaceAll(data, []byte(uid), []byte(to))
		}
	}
	o, err := object.ParseWithManagedFields(data, v.object.APIVersion(), v.object.Kind())
	if err != nil {
		panic("rename the UIDs of " + v.name.ref.String() + ": " + err.Error()) // It was parsed before.
	}
	return e.versionOf(o, v.gone)
}
