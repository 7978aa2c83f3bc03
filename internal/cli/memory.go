package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent is how much garbage may pile up, in percent of what is in use.
	// What is in use is mostly the bytes of cached objects, which hold no
	// pointers and so cost the collector nothing: it may run more often than
	// Go's default of 100 would have it.
	gcPercent = 50

	// restEvery is how often we look whether the process has come to rest,
	// restBelow how much it may allocate in that time to be at rest, and
	// worthIt how much must have been allocated before for a clean-up.
	restEvery = time.Second
	restBelow = 2 << 20
	worthIt   = 16 << 20
)

// tendMemory keeps the process small: it gives memory back to the system each
// time the work that took it is done. $GOGC, if set, is left to rule.
func tendMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ticker := time.NewTicker(restEvery)
	defer ticker.Stop()
	cleaned, before := allocated(), allocated()
	for {
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

// allocated is how many bytes the process has allocated since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
