package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

const contentType = "application/json"

// httpError is an error with an HTTP status.
type httpError struct {
	code int
	err  error
}

func (r *httpError) Error() string { return r.err.Error() }
func (r *httpError) Unwrap() error { return r.err }

func newHTTPError(code int, format string, args ...any) error {
	return &httpError{code, fmt.Errorf(format, args...)}
}

// ServeHTTP serves one request. An unknown path is 404, so that the failure policy
// decides.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := s.find(r.URL.Path)
	if to == nil {
		writeError(w, newHTTPError(http.StatusNotFound, "no webhook at %s", strconv.Quote(r.URL.Path)))
		return
	}
	if counted, is := r.Context().Value(connectionKey{}).(*connection); is {
		counted.prove()
	}
	if to.webhook == nil {
		s.probe(w, r)
	} else {
		s.review(w, r, to)
	}
}

// readReview reads and decodes a review. It uses no turn of the program.
func (s *Server) readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, error) {
	connection := http.NewResponseController(w)
	// Where there are no deadlines there is no connection that could be slow.
	_ = connection.SetReadDeadline(time.Now().Add(s.options.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, newHTTPError(http.StatusRequestEntityTooLarge, "the review exceeds %d bytes", s.options.MaxBody)
	}
	if err != nil {
		return nil, newHTTPError(http.StatusBadRequest, "read the review after %d bytes: %w", len(body), err)
	}
	_ = connection.SetReadDeadline(time.Time{}) // Else the connection ends while the hook is at work.
	review, err := decodeReview(body)
	if err != nil {
		return nil, newHTTPError(http.StatusBadRequest, "malformed %s: %w", reviewKind, err)
	}
	return review, nil
}

// probe allows a probe, and confirms it by a warning.
func (s *Server) probe(w http.ResponseWriter, r *http.Request) {
	review, err := s.readReview(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	data, err := encode(newAdmissionReview(&admissionv1.AdmissionResponse{
		UID: review.UID, Allowed: true, Warnings: []string{admission.ProbeWarning},
	}))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, data)
}

// responseTimeout is the shorter of the webhook's and the API server's timeout, less a
// margin so that the API server receives the error.
func responseTimeout(r *http.Request, webhook time.Duration) time.Duration {
	limit := webhook
	if limit <= 0 {
		limit = admission.DefaultTimeout
	}
	if received, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && received > 0 {
		limit = min(limit, received)
	}
	return limit - min(limit/10, maxTimeoutMargin)
}

const maxTimeoutMargin = 200 * time.Millisecond

func writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // The client may be gone.
}

// writeError writes an error in one line. With any status but 200 the failure policy
// decides.
func writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if refused, ok := errors.AsType[*httpError](err); ok {
		code = refused.code
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, failure.OneLine(err)+"\n") //nolint:gosec // Plain text, and said to be.
}
