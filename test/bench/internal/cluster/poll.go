package cluster

import (
	"context"
	"fmt"
	"time"
)

// pollInterval is how often Poll looks: often enough for a start-up time to be
// told in hundredths of a second.
const pollInterval = 20 * time.Millisecond

// Poll looks at a condition until it holds, fails, or ctx ends, and then says
// what it waited for.
func Poll(ctx context.Context, what string, holds func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		switch ok, err := holds(); {
		case err != nil:
			return fmt.Errorf("wait for %s: %w", what, err)
		case ok:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
