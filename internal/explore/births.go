package explore

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

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
