package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"syscall"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Fault classifies a call without a valid response.
func (e *Error) Fault() *failure.Fault {
	if status, is := errors.AsType[*StatusError](e); is {
		return &failure.Fault{Kind: failure.HookStatus, Code: status.Code, Body: status.Body}
	}
	return &failure.Fault{Kind: faultKind(e)}
}

func faultKind(err error) failure.FaultKind {
	opErr, isOpError := errors.AsType[*net.OpError](err)
	switch {
	case isType[*CredentialsError](err):
		return failure.HookCredentials
	case isType[*TimeoutError](err):
		return failure.HookTimeout
	case isType[*net.DNSError](err):
		return failure.HookUnknownHost
	case isTLSError(err):
		return failure.HookTLS
	case errors.Is(err, syscall.ECONNREFUSED), isOpError && opErr.Op == "dial":
		return failure.HookUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return failure.TimedOut
	case hook.IsUnreachable(err):
		return failure.HookDisconnected
	}
	return failure.HookFailed
}

// isTLSError reports whether the TLS handshake failed. For an alert from the peer,
// crypto/tls provides only the name of the operation.
func isTLSError(err error) bool {
	if isType[*tls.CertificateVerificationError](err) || isType[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if isType[x509.UnknownAuthorityError](err) || isType[x509.HostnameError](err) || isType[x509.CertificateInvalidError](err) {
		return true
	}
	opErr, isOpError := errors.AsType[*net.OpError](err)
	return isOpError && slices.Contains([]string{"remote error", "local error"}, opErr.Op)
}

func isType[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
