package loop

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options of a Process. The zero value works.
type Options struct {
	// Memo remembers the responses of hooks, for all processes that share it; nil for one of its own.
	Memo *Memo
	// Resolve finds the kinds that customize hooks name; an error for each if nil.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// External is what hooks call outside of the cluster; nil for nothing.
	External *External
}

// Process is one process of Setpoint. It keeps nothing between calls, so each run starts as after a
// restart of the process, with a cache that has what the View has. It is not safe for concurrent use:
// each worker of a search has its own.
type Process struct {
	options   Options
	programs  Programs
	omissions []string
	kinds     map[object.GroupKind]bool
	transport *transport
	writer    *apply.Writer
	calls     *callRecorder
}

// fixedTime returns when everything happens.
func fixedTime() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
