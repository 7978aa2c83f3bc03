package child

import (
	"log/slog"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// LogTo returns a Config.Log that logs the lines of a controller's hook.
func LogTo(log *slog.Logger, controller string) func(about []byte, line string) {
	return func(about []byte, line string) {
		attributes := []any{"controller", controller, "line", line}
		if o, err := object.Parse(about); err == nil {
			attributes = append(attributes, "object", o.Ref().String())
		}
		log.Info("output of the hook", attributes...)
	}
}
