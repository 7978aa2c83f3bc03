// Package memory keeps the resident memory of a process small: it sets how often garbage is collected, and
// returns to the system what a process has needed only for its start.
//
// What must not live here: caches and their bounds, which belong to their packages. Who calls: commands that run
// for long, and the components of a control plane.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is how often Tune reads the memory metrics.
	interval = 400 * time.Millisecond

	// minGCPercent and maxGCPercent bound GOGC. The heap is mostly the bytes of cached
	// objects, which hold no pointers and cost the collector little: with a large heap
	// it may run more often than by Go's default, the maximum here. Below gcFloor of
	// live heap it would run all the time for nothing.
	minGCPercent = 50
	maxGCPercent = 100
	gcFloor      = 10 << 20

	// idleAllocs is the most a process allocates in one interval while it is idle, and
	// freeAfterAllocs is how much it must have allocated since memory was last
	// returned to the system.
	idleAllocs      = 1 << 20
	freeAfterAllocs = 8 << 20

	// settled is how many intervals a process is idle until it has settled, as after its start or a burst of work. What it
	// needed for that is returned then, however little it has allocated: pages of the program above all.
	settled = 25
)

// Tune keeps the resident memory of a process small until ctx ends: it lowers GOGC for
// large heaps, unless $GOGC or $GOMEMLIMIT is set, and returns memory to the system when
// the process becomes idle.
func Tune(ctx context.Context) {
	userSet := gcSetByUser()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	freed, before, percent, idle, starting := allocated(), allocated(), 0, 0, true
	for {
		if next := gcPercent(liveHeap()); !userSet && next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		if starting {
			releaseProgram()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := allocated()
		idle++
		if now-before >= idleAllocs {
			idle = 0
		}
		starting = starting && idle == 0
		if idle == settled || idle > 0 && now-freed > freeAfterAllocs {
			Release()
			freed = now
		}
		before = now
	}
}

// gcSetByUser reports whether the environment configures the garbage collector.
func gcSetByUser() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// gcPercent returns the GOGC for a live heap of so many bytes; in steps, since each
// change stops the world for a moment.
func gcPercent(liveHeap uint64) int {
	const step = 25
	percent := gcFloor * 100 / max(liveHeap, 1)
	return int(min(max(percent/step*step, minGCPercent), maxGCPercent))
}

// allocated returns how many bytes the process has allocated since it started.
func allocated() uint64 { return readMetric("/gc/heap/allocs:bytes") }

// Heap returns the bytes of live objects and of those that are still to be collected.
func Heap() uint64 { return readMetric("/memory/classes/heap/objects:bytes") }

// liveHeap returns how many bytes the last collection found live.
func liveHeap() uint64 { return readMetric("/gc/heap/live:bytes") }

func readMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
