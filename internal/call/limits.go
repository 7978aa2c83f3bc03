package call

import (
	"cmp"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The default Limits.
const (
	DefaultMaxResponseBytes = 32 << 20
	DefaultMaxValues        = 500_000
	DefaultMaxErrorBytes    = 200
)

// Limits bound the memory that a response takes. Values up to zero select the default.
type Limits struct {
	// MaxResponseBytes is the maximum size of a response; default 32 MiB.
	MaxResponseBytes int64
	// MaxValues is the maximum number of JSON values (objects, lists and scalars) in a
	// response; default 500,000. A decoded value takes 50 to 300 bytes, however small it
	// is in JSON.
	MaxValues int
	// MaxErrorBytes limits how much of an error response is quoted in errors, which
	// reach logs, events and conditions; default 200. Negative values quote nothing.
	MaxErrorBytes int
}

func (l Limits) withDefaults() Limits {
	if l.MaxResponseBytes <= 0 {
		l.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if l.MaxValues <= 0 {
		l.MaxValues = DefaultMaxValues
	}
	l.MaxErrorBytes = max(0, cmp.Or(l.MaxErrorBytes, DefaultMaxErrorBytes))
	return l
}

// CheckValues returns an error if a response, or its beginning, has too many values.
func (l Limits) CheckValues(body []byte) error {
	if err := object.LimitValues(body, l.MaxValues); err != nil {
		return &hook.MalformedError{Err: err}
	}
	return nil
}

// TooLarge returns the error for a response of more than MaxResponseBytes.
func (l Limits) TooLarge() error {
	return &hook.MalformedError{Err: fmt.Errorf("larger than %s", formatBytes(l.MaxResponseBytes))}
}

func formatBytes(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
