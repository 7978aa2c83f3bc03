package host

import (
	"context"
	"os"
	"runtime/debug"
	figures "runtime/metrics"
	"time"
)

const (
	// tendEvery is how often we look after the memory.
	tendEvery = 400 * time.Millisecond

	// leastPercent and mostPercent are how much garbage may pile up, in percent
	// of what is in use. What is in use is mostly the bytes of cached objects,
	// which hold no pointers and so cost the collector nothing: where there are
	// many, it may run more often than Go's default, which is the most, would have
	// it. Up to enoughGarbage it would run all the time for nothing.
	leastPercent  = 50
	mostPercent   = 100
	enoughGarbage = 16 << 20

	// restBelow is how much the process may allocate between two looks to be at
	// rest, and worthIt how much must have been allocated before for a clean-up.
	restBelow = 1 << 20
	worthIt   = 8 << 20
)

// TendMemory keeps a process small that is there for its Host: it has garbage collected
// as often as it is worth it, and gives memory back to the system each time the work
// that took it is done. How often, $GOGC or $GOMEMLIMIT are left to rule if one is set.
func TendMemory(ctx context.Context) {
	ruled := ruled()
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	cleaned, before, percent := allocated(), allocated(), 0
	for {
		if wanted := gcPercent(inUse()); !ruled && wanted != percent {
			percent = wanted
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := allocated()
		if now-before < restBelow && now-cleaned > worthIt {
			debug.FreeOSMemory()
			cleaned = now
		}
		before = now
	}
}

// ruled says that somebody else says how often garbage is collected.
func ruled() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// gcPercent is how much garbage may pile up with so many bytes in use; in steps,
// since each change stops the world for a moment.
func gcPercent(inUse uint64) int {
	const step = 25
	percent := enoughGarbage * 100 / max(inUse, 1)
	return int(min(max(percent/step*step, leastPercent), mostPercent))
}

// allocated is how many bytes the process has allocated since it began.
func allocated() uint64 { return metric("/gc/heap/allocs:bytes") }

// inUse is how many bytes the latest collection found in use.
func inUse() uint64 { return metric("/gc/heap/live:bytes") }

func metric(name string) uint64 {
	sample := []figures.Sample{{Name: name}}
	figures.Read(sample)
	return sample[0].Value.Uint64()
}
