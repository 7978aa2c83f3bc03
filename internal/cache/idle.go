package cache

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// idleJitter spreads idle timeouts, so that watches that became idle together are not
// reopened together.
const idleJitter = 0.2

// closeWhenIdle closes a watch that receives nothing for IdleTimeout. A proxy that drops
// packets, or an API server that lost the watch, cannot be detected otherwise. Reopening a
// healthy watch costs one request.
func (s *stream) closeWhenIdle(ctx context.Context) {
	ticker := time.NewTicker(wait.Jitter(s.listWatcher.idleTimeout, idleJitter))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !s.active.Swap(false) {
			s.listWatcher.log.Debug("watch is idle; reopening it", "selection", s.listWatcher.selection.String())
			s.cancel()
			return
		}
	}
}
