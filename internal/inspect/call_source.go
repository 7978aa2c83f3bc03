package inspect

import (
	"context"
	"io"

	"github.com/setpoint-dev/setpoint/internal/recording"
)

// CallSource is a Source of whole calls of hooks, in which tokens stand for values of Secrets.
type CallSource interface {
	Source
	// RunWithTokens is Run with tokens.
	RunWithTokens(ctx context.Context, id uint64) (Run, error)
	// Record writes a recording of what runs from now on, until the context ends.
	Record(ctx context.Context, filter recording.Filter, out io.Writer) error
}
