package dev

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// idleManager is an engine that runs no controllers.
type idleManager struct{ ready chan struct{} }

// NewIdleManager makes an Engine for a cluster in which somebody else runs the
// controllers.
func NewIdleManager(manager.Options) (Manager, error) {
	ready := make(chan struct{})
	close(ready)
	return idleManager{ready}, nil
}

func (idleManager) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (i idleManager) Ready() <-chan struct{}      { return i.ready }
func (idleManager) HookRestarted(string)          {}
func (idleManager) HookDown(string, error)        {}
