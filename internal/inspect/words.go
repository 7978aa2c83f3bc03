package inspect

import (
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// Does says in sentences what the programs of a controller do.
func Does(hooks []engine.Program, handlers []react.Program, reviews *admission.Program) []string {
	return []string{}
}
