package setpoint

import (
	"flag"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// Dashboard is a dashboard for UseDashboard: *dashboard.Options of the package dashboard.
type Dashboard interface {
	// RegisterFlags registers the flags of the dashboard for Main.
	RegisterFlags(set *flag.FlagSet)
}

// UseDashboard adds a dashboard to the program, with its flags in Main. The package dashboard
// has one. Programs that do not import that package do not link its pages.
func (a *App) UseDashboard(d Dashboard) {
	served, is := d.(manager.Dashboard)
	if !is {
		a.addProblem("UseDashboard: must be a *dashboard.Options, not a %T", d)
		return
	}
	a.flagsOfDashboard, a.dashboard = d.RegisterFlags, served
}
