package manager

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// Dashboard opens the endpoints of a dashboard. It is an interface so that programs without
// a dashboard do not link its pages.
type Dashboard interface {
	// Check validates the configuration.
	Check() error
	// Open opens the endpoints, of which there may be none.
	Open(ctx context.Context, p DashboardProcess) ([]serving.Endpoint, error)
}

// DashboardProcess is the process that a dashboard shows. Its Source stays the same, since
// pages wait for its changes.
type DashboardProcess struct {
	Config  *rest.Config
	Source  inspect.Source
	Version string
	Log     *slog.Logger
}
