package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/manager/leader"
)

// runControllers runs the controllers and the leader election. The Lease is held until all
// work has stopped.
func (m *Manager) runControllers(ctx context.Context) error {
	defer m.store.Close()
	defer m.events.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leaderCtx, stopLeading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeading()
	worked, led := make(chan error, 1), make(chan error, 1)
	go func() { worked <- m.watchAndRun(ctx) }()
	go func() { led <- m.leader.Run(leaderCtx, m.crds.Install) }()
	late := m.shutdownDeadline(ctx)
	select {
	case <-late.Done():
		return m.shutdownTimeoutError()
	case err := <-worked:
		stopLeading()
		return errors.Join(err, <-led)
	case err := <-led:
		stop()
		if errors.Is(err, leader.ErrStillWorking) {
			m.logUnfinished()
		}
		select {
		case also := <-worked:
			return errors.Join(err, also)
		case <-time.After(m.options.LeaderElection.Grace()):
			// A hook that ignores its context must not delay the exit.
			return err
		}
	}
}

// shutdownDeadline returns a context that ends ShutdownTimeout after ctx.
func (m *Manager) shutdownDeadline(ctx context.Context) context.Context {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(m.options.ShutdownTimeout, end) })
	return late
}

// logUnfinished logs the tasks that did not stop.
func (m *Manager) logUnfinished() {
	for _, what := range m.options.UnfinishedTasks() {
		m.log.Error("did not stop within the shutdown timeout", "what", what)
	}
}

// shutdownTimeoutError logs the tasks that did not stop and returns the error of Run.
func (m *Manager) shutdownTimeoutError() error {
	m.logUnfinished()
	return fmt.Errorf("work did not stop within the shutdown timeout of %s; it must return when its context ends",
		m.options.ShutdownTimeout)
}

// watchAndRun runs the controllers once the leader is known and the CRDs are installed.
func (m *Manager) watchAndRun(ctx context.Context) error {
	select {
	case <-m.leader.Known():
	case <-ctx.Done():
		return nil
	}
	if err := m.awaitCRDsAsStandby(ctx); err != nil {
		return err
	}
	defer m.crds.Watch(ctx, m.store, len(m.options.GoControllers) > 0)()
	return m.controllers.run(ctx)
}
