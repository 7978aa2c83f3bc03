package dev

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/host"
)

// idle is an engine that runs no controllers.
type idle struct{ ready chan struct{} }

// NewIdle makes an Engine for a cluster in which somebody else runs the
// controllers.
func NewIdle(host.Options) (Engine, error) {
	ready := make(chan struct{})
	close(ready)
	return idle{ready}, nil
}

func (idle) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (i idle) Ready() <-chan struct{}      { return i.ready }
func (idle) HookRestarted(string)          {}
func (idle) HookDown(string, error)        {}
