package userclient

import (
	"context"
	"errors"
	"net"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
