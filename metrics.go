package setpoint

import "github.com/prometheus/client_golang/prometheus"

// Metrics registers metrics of the program, which /metrics serves beside those of Setpoint
// and of the Go runtime: see promauto.With. Their names must not begin with "setpoint_".
func (a *App) Metrics() prometheus.Registerer { return a.metrics }
