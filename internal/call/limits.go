package call

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

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
	l.MaxResponseBytes = cmp.Or(max(0, l.MaxResponseBytes), DefaultMaxResponseBytes)
	l.MaxValues = cmp.Or(max(0, l.MaxValues), DefaultMaxValues)
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

// Failed is an error that a hook responded.
type Failed struct{ Message string }

func (e *Failed) Error() string { return e.Message }

// maxRetryAfter limits the delay that a hook can request.
const maxRetryAfter = 24 * time.Hour

// beforeError are the beginnings of an error of the hook, without spaces: objects have no order.
var beforeError = []string{`{"error":`, `{"retryAfterSeconds":`}

// OwnError returns the error that a response without a status code can be, such as
// {"error": "message", "retryAfterSeconds": 5}; nil if it is none. The error of a handler is an object, and part of its
// response.
func OwnError(response []byte, limits Limits) error {
	var failed struct {
		Error             string
		RetryAfterSeconds float64
	}
	const most = 64 // More would be for spaces only.
	beginning := string(bytes.ReplaceAll(response[:min(len(response), most)], []byte(" "), nil))
	mayBe := slices.ContainsFunc(beforeError, func(prefix string) bool { return strings.HasPrefix(beginning, prefix) })
	isError := mayBe && json.Unmarshal(response, &failed) == nil && failed.Error != ""
	if !isError {
		return nil
	}
	own := &Failed{Quote(failed.Error, limits.MaxErrorBytes)}
	if after := min(failed.RetryAfterSeconds, maxRetryAfter.Seconds()); after > 0 {
		return &hook.RetryAfterError{After: time.Duration(after * float64(time.Second)), Err: own}
	}
	return own
}

// Quote returns at most limit bytes of s on one line.
func Quote(s string, limit int) string {
	if limit == 0 {
		return ""
	}
	s = strings.ToValidUTF8(s[:min(len(s), 4*limit)], "?")
	words := strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
	line := strings.Join(words, " ")
	if len(line) <= limit {
		return line
	}
	return strings.ToValidUTF8(line[:limit], "") + "…"
}
