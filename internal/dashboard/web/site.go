// Package web is what all pages of the dashboard share: requests of users with their permissions, routes, rendering, lists,
// actions, links, problems and sign-in.
//
// It knows no page. Styles and scripts are in package dashboard, templates in dashboard/templates.
package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Site is what all requests share.
type Site struct {
	Cluster       *userclient.Cluster
	Processes     *processes.Set
	Authenticator *access.Authenticator
	Log           *slog.Logger
	Now           func() time.Time
	// Version is the version of Setpoint.
	Version   string
	Templates Templates
	Assets    Assets
	// Handler serves the routes: see ServeRoutes.
	Handler http.Handler
}

// SetReadDeadline sets the read deadline of the connection; the zero Time removes it.
func SetReadDeadline(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
