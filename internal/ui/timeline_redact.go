package ui

import "github.com/setpoint-dev/setpoint/internal/inspect"

// redact leaves out of a run what the visitor may not read.
func (v *visit) redact(run inspect.Run) inspect.Run { return inspect.Redact(run, v.reads) }
