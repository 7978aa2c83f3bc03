package host

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/compile"
)

// Own is a controller that is declared by a Go program, not by an object.
type Own struct {
	// Name identifies it in logs, metrics and health; no other may have it.
	Name string
	// Compile makes its programs. It is called again after an error, when a CRD
	// changes that concerns it, and now and then while a kind is not served or a
	// permission is lacking; a *compile.Refusal says so. Its programs have its Name.
	Compile func(ctx context.Context, env compile.Environment) (*compile.Compiled, error)
}
