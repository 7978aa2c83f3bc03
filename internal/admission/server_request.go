package admission

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
)

const contentType = "application/json"

// refusal is an error with the status it is answered by.
type refusal struct {
	code int
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// ServeHTTP answers one request. A path that is none of a program's is not found, so
// that the failure policy says what becomes of the change.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := s.find(r.URL.Path)
	switch {
	case to == nil:
		respond(w, refuse(http.StatusNotFound, "no webhook is asked at %s here", strconv.Quote(r.URL.Path)))
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		respond(w, refuse(http.StatusMethodNotAllowed, "reviews are sent by POST, not %s", strconv.Quote(r.Method)))
	case !isJSON(r.Header.Get("Content-Type")):
		respond(w, refuse(http.StatusUnsupportedMediaType, "reviews are sent as %s, not %s", contentType, strconv.Quote(r.Header.Get("Content-Type"))))
	case to.webhook == nil:
		proven(r)
		s.probe(w, r, to)
	default:
		proven(r)
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

// probe allows whatever it is asked, and says that it was.
func (s *Server) probe(w http.ResponseWriter, r *http.Request, to *route) {
	held := s.memory.begin(to.budget, cutOff(w))
	defer held.end()
	body, err := s.read(r.Context(), w, r, held)
	if err != nil {
		respond(w, err)
		return
	}
	review, err := decodeReview(body)
	if err != nil {
		respond(w, malformed(err))
		return
	}
	data, err := encode(answer(&admissionv1.AdmissionResponse{
		UID: types.UID(review.UID), Allowed: true, Warnings: []string{probeWarning},
	}))
	if err != nil {
		respond(w, err)
		return
	}
	deliver(w, data)
}

// DefaultTimeout is that of Kubernetes for a webhook that says none.
const DefaultTimeout = 10 * time.Second

// patience is how long an answer may take: what the webhook has and what the API
// server says that it waits, whichever is less, and a little less than that, so that
// it gets to read what went wrong.
func patience(r *http.Request, webhook time.Duration) time.Duration {
	limit := webhook
	if limit <= 0 {
		limit = DefaultTimeout
	}
	if told, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && told > 0 {
		limit = min(limit, told)
	}
	return limit - min(limit/10, maxMargin)
}

const maxMargin = 200 * time.Millisecond

func deliver(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // Who is gone needs no answer.
}

// respond tells an error in one line. Every status but 200 has the failure policy say
// what becomes of the change.
func respond(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if refused, ok := errors.AsType[*refusal](err); ok {
		code = refused.code
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, oneLine(err)+"\n") //nolint:gosec // Plain text, and said to be.
}

// maxLine is how much of an error the API server is told.
const maxLine = 1024

func oneLine(err error) string {
	line := strings.Join(strings.Fields(err.Error()), " ")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	return line
}
