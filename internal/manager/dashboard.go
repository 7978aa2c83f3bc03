package manager

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// Dashboard opens the endpoints of a dashboard. It is an interface so that programs without
// a dashboard do not link its pages.
type Dashboard interface {
	// Check validates the configuration.
	Check() error
	// Open opens the endpoints, of which there may be none.
	Open(ctx context.Context, p DashboardProcess) ([]HTTPEndpoint, error)
}

// DashboardProcess is the process that a dashboard shows. Its Source stays the same, since
// pages wait for its changes.
type DashboardProcess struct {
	Config  *rest.Config
	Source  model.Source
	Version string
	Log     *slog.Logger
}

// openDashboard opens the endpoints of the dashboard, if there is one.
func (m *Manager) openDashboard(ctx context.Context) ([]HTTPEndpoint, error) {
	if m.options.Dashboard == nil {
		return nil, nil
	}
	return m.options.Dashboard.Open(ctx, DashboardProcess{
		Config: m.options.Config, Source: m.Inspect(), Version: m.options.Version, Log: m.log,
	})
}
