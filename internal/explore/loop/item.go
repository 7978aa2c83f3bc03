package loop

import (
	"hash/maphash"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Item is an object to reconcile. It is immutable.
type Item struct {
	queue.Item

	// Program is the index of the program.
	Program int
	// events are those that handlers have not seen.
	events []cache.Event
}

// Merge returns one item for two of the same key.
func (i Item) Merge(newer Item) Item {
	causes := queue.NewCauses(i.Causes.List()...)
	causes.Merge(newer.Causes)
	i.Causes = causes
	i.events = slices.Concat(i.events, newer.events)
	return i
}

// decisiveCauses are those that change what a run does in a process that has just started. All others only
// bring about the run.
var decisiveCauses = []queue.CauseKind{queue.RelatedChanged, queue.ReconcileRequested, queue.HookChanged}

// Digest identifies what the item makes a run do.
func (i Item) Digest() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, i.Program)
	maphash.WriteComparable(&h, i.Key)
	for _, kind := range decisiveCauses {
		maphash.WriteComparable(&h, i.Causes.Has(kind))
	}
	for _, e := range i.events {
		if e.Old != nil {
			writeObject(&h, e.Old)
		}
		maphash.WriteComparable(&h, e.New != nil)
		if e.New != nil {
			writeObject(&h, e.New)
		}
	}
	return h.Sum64()
}

// Retry returns the item of a run that is to be repeated, by its outcome or by a delay that it chose.
func (i Item) Retry(kind queue.CauseKind) Item {
	return Item{Item: queue.Item{Key: i.Key, Causes: queue.NewCauses(queue.Cause{Kind: kind})}, Program: i.Program}
}
