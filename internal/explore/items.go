package explore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// enqueue adds items to those that a process has to reconcile, which are sorted and have one item for each key.
func enqueue(with Process, items []Item, more ...Item) []Item {
	if len(more) == 0 {
		return items
	}
	all := slices.Clone(items)
	for _, item := range more {
		i, found := slices.BinarySearchFunc(all, item, compareItems)
		if found {
			failed := all[i].Failed && item.Failed
			all[i] = with.Merge(all[i], item)
			all[i].Failed = failed
			continue
		}
		all = slices.Insert(all, i, item)
	}
	return all
}

func compareItems(a, b Item) int {
	return cmp.Or(strings.Compare(a.Controller, b.Controller), compareKeys(a.Key, b.Key))
}

func compareKeys(a, b queue.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// refers reports whether an item has objects, such as those of events that handlers have not seen.
func refers(items []Item) bool {
	return slices.ContainsFunc(items, func(item Item) bool { return item.Refers })
}
