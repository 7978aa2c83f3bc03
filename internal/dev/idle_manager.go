package dev

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// idleManager runs no controllers.
type idleManager struct{ ready chan struct{} }

// NewIdleManager returns a Manager for a cluster whose controllers run elsewhere.
func NewIdleManager(manager.Options) (Manager, error) {
	ready := make(chan struct{})
	close(ready)
	return idleManager{ready}, nil
}

func (idleManager) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (i idleManager) Ready() <-chan struct{}      { return i.ready }
func (idleManager) HookRestarted(string)          {}
func (idleManager) HookDown(string, error)        {}
