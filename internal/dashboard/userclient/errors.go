package userclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// ErrUnreachable is wrapped by errors about an API server that does not respond or is
// unavailable. The request may be retried.
var ErrUnreachable = errors.New("the API server cannot be reached")

// errNotResponding is the cause of canceled requests.
var errNotResponding = errors.New("it does not respond")

type classifiedError struct {
	class error
	err   error
}

func (r classifiedError) Error() string   { return r.err.Error() }
func (r classifiedError) Unwrap() []error { return []error{r.class, r.err} }

// classifyError adds ErrUnreachable or failure.ErrNotFound to an error.
func classifyError(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	responded := errors.As(err, &status)
	switch {
	case errors.Is(context.Cause(ctx), errNotResponding):
		return classifiedError{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, errNotResponding)}
	case errors.Is(context.Cause(ctx), context.Canceled):
		return err
	case !responded:
		return classifiedError{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, err)}
	case apierrors.IsNotFound(err):
		return classifiedError{failure.ErrNotFound, err}
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err):
		return classifiedError{ErrUnreachable, err}
	}
	return err
}

// FieldError is the error of one field.
type FieldError struct {
	// Field is a path such as "spec.strings[0].gauge"; empty for the whole object.
	Field   string
	Message string
}

// DescribeError returns why a request was rejected, and the errors of fields if known.
func DescribeError(err error) (title string, fields []FieldError) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error(), nil
	}
	s := status.Status()
	fields = fieldCauses(s.Details)
	if len(fields) == 0 {
		fields = parseFieldErrors(s.Message)
	}
	if title, _, cut := strings.Cut(s.Message, ": "); cut && len(fields) > 0 {
		return title, fields // The rest of the message repeats the fields.
	}
	return s.Message, fields
}

// fieldCauses returns the causes sorted by field, since their order differs between requests.
func fieldCauses(details *metav1.StatusDetails) []FieldError {
	if details == nil {
		return nil
	}
	var found []FieldError
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse || strings.Contains(cause.Message, uncheckedRules) {
			continue
		}
		// The path of the whole object is "" or "<nil>". A message may begin with the value and the field.
		field := strings.TrimPrefix(strings.TrimPrefix(cause.Field, "<nil>"), ".")
		message := invalidValuePrefix.ReplaceAllString(cause.Message, "")
		found = append(found, FieldError{field, strings.TrimPrefix(message, field+" in body ")})
	}
	slices.SortStableFunc(found, func(a, b FieldError) int { return cmp.Compare(a.Field, b.Field) })
	return found
}

// uncheckedRules is a cause that only says that there may be more.
const uncheckedRules = "some validation rules were not checked because the object was invalid"

// invalidValuePrefix matches the prefix of a cause that repeats the value.
var invalidValuePrefix = regexp.MustCompile(`^Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|[-+.0-9e]+|null|true|false|\{.*\}|\[.*\]): )?`)

var (
	strictFieldPattern = regexp.MustCompile(`(unknown|duplicate) field "([^"]+)"`)
	typeErrorPattern   = regexp.MustCompile(`cannot unmarshal (\S+) into Go struct field [^.\s]+\.(\S+) of type (\S+)`)
)

func parseFieldErrors(message string) []FieldError {
	var found []FieldError
	for _, m := range strictFieldPattern.FindAllStringSubmatch(message, -1) {
		found = append(found, FieldError{m[2], m[1] + " field"})
	}
	for _, m := range typeErrorPattern.FindAllStringSubmatch(message, -1) {
		found = append(found, FieldError{m[2], "must be of type " + m[3] + ": \"" + m[1] + "\""})
	}
	return found
}

// IsUnreachable reports whether an error means that nothing responded.
func IsUnreachable(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// AffectsAllObjects reports whether an error is not about one object: the API server is
// unreachable or overloaded, or the user is unauthorized or has left.
func AffectsAllObjects(err error) bool {
	if _, later := apierrors.SuggestsClientDelay(err); apierrors.IsTooManyRequests(err) && !later {
		return false // A webhook can return that too.
	}
	return IsUnreachable(err) || apierrors.IsUnauthorized(err) || errors.Is(err, context.Canceled)
}
