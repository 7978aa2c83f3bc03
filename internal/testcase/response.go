package testcase

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// fields are those of a response.
type fields = difference.Response

// responseError is an error of the hook, which a case may expect.
type responseError struct{ error }

func (e *responseError) Unwrap() error { return e.error }

// responseFields returns the fields of a response. Objects without a namespace are in that of the object that the
// request is about.
func (t *target) responseFields(r record.Response, namespace string) (fields, error) {
	form := hook.Composite
	if t.isDecorator() {
		form = hook.Decorator
	}
	all, err := difference.Decode(r.JSON(form), t.desiredField(), namespace)
	if err != nil {
		return nil, err
	}
	if t.handle != nil {
		normalizeHandler(all, namespace)
	}
	return all, nil
}

// immediately is the retryAfterSeconds of a handler that is called again at once.
const immediately = 0.001

// readableDelay returns a number of seconds in a form that people write.
func readableDelay(seconds any) any {
	if after, is := object.Number(seconds); is && after > 0 && after < immediately {
		return immediately
	}
	return seconds
}

func normalizeHandler(f fields, namespace string) {
	applied, _ := f["apply"].([]any)
	for _, each := range applied {
		o, _ := each.(map[string]any)
		if inner, wrapped := o["object"].(map[string]any); wrapped {
			o = inner
		}
		difference.DropNamespace(o, namespace)
	}
	if after, is := f[fieldRetryAfter]; is {
		f[fieldRetryAfter] = readableDelay(after)
	}
	if failed, is := f[fieldError].(map[string]any); is {
		f[fieldError] = failed["message"]
	}
}
