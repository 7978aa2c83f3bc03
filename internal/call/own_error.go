package call

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

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
