package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// listen opens all endpoints, except for webhooks. The address of the inspect endpoint is
// published until unpublish is called.
func (m *Manager) listen(ctx context.Context) (endpoints []serving.Endpoint, unpublish func(), err error) {
	defer func() {
		if err != nil {
			serving.CloseAll(endpoints)
		}
	}()
	options := m.serving()
	if endpoints, err = serving.Open(ctx, options); err != nil {
		return nil, nil, err
	}
	if m.options.Dashboard != nil {
		pages, err := m.options.Dashboard.Open(ctx, DashboardProcess{Config: m.options.Config, Source: m.Inspect(),
			Version: m.options.Version, Log: m.log})
		if err != nil {
			return endpoints, nil, fmt.Errorf("serve the dashboard: %w", err)
		}
		endpoints = append(endpoints, pages...)
	}
	inspect := m.options.inspect()
	inspect.Config, inspect.Source, inspect.Published = m.options.config(), m.Inspect(), m.leader.SetAddress
	inspected, unpublish, err := inspect.Open(ctx)
	return append(endpoints, inspected...), unpublish, err
}

// serving returns the configuration of health and metrics.
func (m *Manager) serving() serving.Options {
	return serving.Options{
		Address: m.options.Address, HealthAddress: m.options.HealthAddress, Profiling: m.options.Profiling,
		Metrics: m.metrics, Healthy: m.checkHealth, HealthPath: m.options.HealthPath, Unready: m.checkReady, Log: m.log,
	}
}

// checkHealth returns what a process that belongs to this one says of its health, or why one of
// them is unhealthy.
func (m *Manager) checkHealth() ([]byte, error) {
	if err := m.inFlight.CheckStuck(); err != nil || m.options.Health == nil {
		return nil, err
	}
	return m.options.Health()
}

// checkReady returns why the manager is not ready: caches that are not synced, a Lease that
// it may not acquire, or a controller that cannot run.
func (m *Manager) checkReady() error {
	if err := m.leader.Problem(); err != nil {
		return err
	}
	select {
	case <-m.ready:
	default:
		if m.awaitingCRDs.Load() && !m.leader.Leads() {
			return nil
		}
		return errors.New("starting")
	}
	if err := m.crds.CheckDeleted(); err != nil {
		return err
	}
	if m.options.Health != nil {
		if _, err := m.options.Health(); err != nil {
			return err
		}
	}
	if m.options.Unready != nil {
		if err := m.options.Unready(); err != nil {
			return err
		}
	}
	if err := m.controllers.checkSynced(); err != nil {
		return err
	}
	return m.controllers.goControllerError()
}
