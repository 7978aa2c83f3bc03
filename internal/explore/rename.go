package explore

import "slices"

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
