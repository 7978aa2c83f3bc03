package run

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// hookFlags limit hook responses.
type hookFlags struct {
	size           string
	values, quoted int
}

func (f *hookFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.size, "hook-response-max-size", "32Mi", "maximum `bytes` of a hook response")
	set.IntVar(&f.values, "hook-response-max-values", call.DefaultMaxValues,
		"maximum JSON values in a hook response: objects, lists and scalars at all depths")
	set.IntVar(&f.quoted, "hook-error-max-size", call.DefaultMaxErrorBytes,
		"maximum `bytes` of an error response in logs, events and conditions; 0 omits it")
}

func (f *hookFlags) check() error {
	size, err := manager.ParseBytes(f.size)
	switch {
	case err != nil:
		return fmt.Errorf("--hook-response-max-size %w", err)
	case size == 0:
		return errors.New("--hook-response-max-size must be greater than zero")
	case f.values < 1:
		return fmt.Errorf("--hook-response-max-values must be greater than zero, not %d", f.values)
	case f.quoted < 0 || f.quoted > maxQuoted:
		return fmt.Errorf("--hook-error-max-size must be from 0 to %d, not %d", maxQuoted, f.quoted)
	}
	return nil
}

// maxQuoted is about the maximum length of an event message.
const maxQuoted = 1000

// limits returns the limits, which check has validated.
func (f *hookFlags) limits() call.Limits {
	size, _ := manager.ParseBytes(f.size)
	return call.Limits{MaxResponseBytes: int64(size), MaxValues: f.values, MaxErrorBytes: cmp.Or(f.quoted, -1)}
}
