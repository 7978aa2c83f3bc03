package store

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// spread is the part of a silence that is left to chance: what fell silent at once
// is not to come back at once.
const spread = 0.2

// attend hangs up when nothing is heard of the watch any more. Nothing says that a
// connection is dead if a proxy swallows what it carries, or the API server forgets
// the watch; and where all is well but quiet, asking anew costs one request.
func (s *stream) attend(ctx context.Context) {
	ticker := time.NewTicker(wait.Jitter(s.source.silence, spread))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !s.heard.Swap(false) {
			s.source.log.Debug("nothing heard of a watch; opening it anew", "selection", s.source.selection.String())
			s.hangUp()
			return
		}
	}
}
