package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// ServeHTTP serves one request. An unknown path is 404, so that the failure policy
// decides.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	plain, ours := s.options.PathKeys().StripToken(r.URL.Path)
	to := (*s.routes.Load())[plain]
	if !ours || to == nil {
		writeError(w, newHTTPError(http.StatusNotFound, "no webhook at %s", strconv.Quote(r.URL.Path)))
		return
	}
	if counted, is := r.Context().Value(connectionKey{}).(*connection); is {
		counted.prove()
	}
	if to.webhook == nil {
		s.serveProbe(w, r)
	} else {
		s.serveReview(w, r, to)
	}
}

// serveProbe allows a probe, and confirms it by a warning.
func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request) {
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

// serveReview calls the hook and writes its response.
func (s *Server) serveReview(w http.ResponseWriter, r *http.Request, to *route) {
	limit := responseTimeout(r, to.webhook.Timeout)
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, &timeoutError{limit})
	defer cancel()
	ctx, span := s.options.Tracer.StartReview(ctx, r.Header, to.program.Name, to.webhook.Name)
	record := admission.ReviewRecord{TraceID: span.ID(), Program: to.program.Name, Webhook: to.webhook.Name, Started: s.options.Now(),
		Authenticated: authenticated(r)}
	body, err := s.process(ctx, &record, to, w, r)
	if err != nil {
		err = fmt.Errorf("webhook %s of %s: %w", to.webhook.Name, to.program.Name, err)
		record.Result, record.Err = admission.Errored, record.Secrets.Error(err)
		writeError(w, record.Err)
	} else {
		writeJSON(w, body)
	}
	endSpan(span, &record)
	s.log(to, record.Err, span)
	if s.options.Observer == nil {
		return
	}
	record.Duration = s.options.Now().Sub(record.Started)
	s.options.Observer.Reviewed(record)
	if err != nil {
		return
	}
	for _, event := range responseEvents(record.Request, record.Response) {
		event.Reason, event.Message = record.Secrets.Text(event.Reason), record.Secrets.Text(event.Message)
		s.options.Observer.EventAt(to.program.User, event)
	}
}

// process reads a review, waits for a turn, and calls the hook. It returns the encoded
// response. A slow sender does not use a turn.
func (s *Server) process(
	ctx context.Context, record *admission.ReviewRecord, to *route, w http.ResponseWriter, r *http.Request,
) ([]byte, error) {
	decoded, err := s.readReview(w, r)
	if err != nil {
		return nil, err
	}
	request := hookRequest(decoded)
	record.Request, record.Operation, record.Resource = request, request.Operation, schema.GroupVersionResource(decoded.Resource)
	record.Secrets = redact.New(nil, request.Namespace, request.Name)
	record.Secrets.See(isSecret(record.Resource), func(visit func(json.RawMessage)) { visit(codec.AppendReviewRequest(nil, request)) })
	if err := to.turns.enter(ctx); err != nil {
		return nil, err
	}
	defer to.turns.leave()
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	request.Controller, request.Webhook = to.program.Object, to.webhook.Name
	if record.Response, err = s.call(trace.Without(ctx, record.Secrets), to, record); err != nil {
		return nil, err
	}
	record.Secrets.See(isSecret(record.Resource), func(visit func(json.RawMessage)) {
		changes, _ := json.Marshal(record.Response) // What has no JSON is refused below.
		visit(changes)
	})
	response, result, err := reviewResponse(to.webhook, request, record.Response)
	if err != nil {
		return nil, err
	}
	record.Result, record.Patch = result, response.Response.Patch
	return encode(response)
}

// call calls the webhook. A panic and a runtime.Goexit are errors, and so is a late
// response.
func (s *Server) call(ctx context.Context, to *route, r *admission.ReviewRecord) (v *hook.ReviewResponse, err error) {
	err = r.Secrets.Error(failure.Recover("it", func() (err error) {
		v, err = to.webhook.Admitter.Admit(ctx, r.Request)
		return err
	}))
	if stack, crashed := failure.PanicStack(err); crashed {
		s.options.Log.Error("webhook crashed", "program", to.program.Name, "webhook", to.webhook.Name,
			"error", failure.OneLine(err), "stack", r.Secrets.Text(stack))
	}
	over := context.Cause(ctx)
	_, timedOut := errors.AsType[*timeoutError](over)
	switch {
	case err != nil && timedOut:
		return nil, fmt.Errorf("%w: %w", over, err)
	case err != nil:
		return nil, failure.WithSource(failure.Handler, err)
	case timedOut:
		return nil, over
	case over != nil:
		return nil, fmt.Errorf("the caller no longer waits for the response: %w", over)
	}
	return v, nil
}

type timeoutError struct{ limit time.Duration }

func (l *timeoutError) Error() string { return "no response within " + l.limit.String() }
func (*timeoutError) Unwrap() error   { return context.DeadlineExceeded }

// responseTimeout is the shorter of the webhook's and the API server's timeout, less a
// margin so that the API server receives the error.
func responseTimeout(r *http.Request, webhook time.Duration) time.Duration {
	limit := admission.DefaultTimeout
	if webhook > 0 {
		limit = webhook
	}
	if received, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && received > 0 {
		limit = min(limit, received)
	}
	return limit - min(limit/10, maxTimeoutMargin)
}

const maxTimeoutMargin = 200 * time.Millisecond

// authenticated reports that the caller presented a certificate of the API server.
func authenticated(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

func isSecret(r schema.GroupVersionResource) bool { return r.Group == "" && r.Resource == "secrets" }

func endSpan(span trace.Span, r *admission.ReviewRecord) {
	if !span.On() {
		return
	}
	span = span.Without(r.Secrets)
	span.Set(trace.AttrOutcome, string(r.Result))
	span.Set(trace.AttrOperation, string(r.Operation))
	span.Set(trace.AttrResource, r.Resource.Resource)
	if r.Request != nil {
		span.Set(trace.AttrNamespace, r.Request.Namespace)
		span.Set(trace.AttrName, r.Request.Name)
	}
	span.End(r.Err)
}

// log logs when a webhook starts to fail and when it recovers.
func (s *Server) log(to *route, err error, span trace.Span) {
	if err == nil && !to.failing.Load() {
		return
	}
	log := s.options.Log.With("program", to.program.Name, "webhook", to.webhook.Name).With(span.LogAttrs()...)
	switch was := to.failing.Swap(err != nil); {
	case err == nil:
		log.Info("webhook recovered")
	case was:
		log.Debug("webhook failed again", "error", failure.OneLine(err))
	default:
		log.Warn("webhook failed", "error", failure.OneLine(err))
	}
}

func writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
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
