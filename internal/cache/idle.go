package cache

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// idleJitter is the part of a silence that is left to chance: what fell silent at once
// is not to come back at once.
const idleJitter = 0.2

// closeWhenIdle hangs up when nothing is heard of the watch any more. Nothing says that a
// connection is dead if a proxy swallows what it carries, or the API server forgets
// the watch; and where all is well but quiet, asking anew costs one request.
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
			s.listWatcher.log.Debug("nothing heard of a watch; opening it anew", "selection", s.listWatcher.selection.String())
			s.cancel()
			return
		}
	}
}
