package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

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
	switch {
	case to == nil:
		writeError(w, newHTTPError(http.StatusNotFound, "no webhook at %s", strconv.Quote(r.URL.Path)))
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		writeError(w, newHTTPError(http.StatusMethodNotAllowed, "method must be POST, not %s", strconv.Quote(r.Method)))
	case !isJSON(r.Header.Get("Content-Type")):
		writeError(w, newHTTPError(http.StatusUnsupportedMediaType, "content type must be %s, not %s",
			contentType, strconv.Quote(r.Header.Get("Content-Type"))))
	case to.webhook == nil:
		markProven(r)
		s.probe(w, r, to)
	default:
		markProven(r)
		s.review(w, r, to)
	}
}

func isJSON(header string) bool {
	if header == contentType {
		return true
	}
	media, _, err := mime.ParseMediaType(header)
	return err == nil && media == contentType
}

// probe allows a probe, and confirms it by a warning.
func (s *Server) probe(w http.ResponseWriter, r *http.Request, to *route) {
	reservation := s.memory.begin(to.budget, interruptRead(w))
	defer reservation.release()
	body, err := s.read(r.Context(), w, r, reservation)
	if err != nil {
		writeError(w, err)
		return
	}
	review, err := decodeReview(body)
	if err != nil {
		writeError(w, malformed(err))
		return
	}
	data, err := encode(newAdmissionReview(&admissionv1.AdmissionResponse{
		UID: types.UID(review.UID), Allowed: true, Warnings: []string{admission.ProbeWarning},
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
