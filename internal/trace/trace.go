// Package trace records spans of what controllers do, for OpenTelemetry: reconciles with their causes, calls of
// hooks, requests to the API server, reviews. It sends them to a collector by OTLP, or gives them to the
// TracerProvider of a Go program.
//
// A nil Tracer and the zero Span are off: they do nothing and allocate nothing. Only reconciles and reviews begin
// with a Tracer. What happens in them finds it in the context. This is the only package that knows the libraries of
// OpenTelemetry.
package trace

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/utils/lru"

	"github.com/setpoint-dev/setpoint/internal/redact"
)

// scope names the instrumentation in spans.
const scope = "github.com/setpoint-dev/setpoint"

// Annotation is where KEP-5915 stores the trace of who wrote an object, for controllers in other processes.
const Annotation = "tracing.k8s.io/traceparent"

const traceparent = "traceparent"

// Tracer starts the traces of a process. A nil Tracer starts none.
type Tracer struct {
	tracer   oteltrace.Tracer
	annotate bool
	writes   *writes

	// failures are the spans of the latest failed runs, and annotations the values that were linked, by runKey.
	failures, annotations *lru.Cache
}

// New returns a Tracer. With annotate, new children get the Annotation.
func New(provider oteltrace.TracerProvider, version string, annotate bool) *Tracer {
	return &Tracer{
		tracer:   provider.Tracer(scope, oteltrace.WithInstrumentationVersion(version)),
		annotate: annotate, writes: &writes{byStored: lru.New(maxWrites), inFlight: map[Object][]*write{}},
		failures: lru.New(maxRuns), annotations: lru.New(maxRuns),
	}
}

// active is the innermost span in a context, and the reconcile that it belongs to.
type active struct {
	tracer *Tracer
	span   oteltrace.Span
	// uid is that of the reconciled object; empty in a review.
	uid string
	// depth counts the reconciles above this one in its trace.
	depth   int
	secrets *redact.Values
}

type activeKey struct{}

func activeIn(ctx context.Context) *active {
	a, _ := ctx.Value(activeKey{}).(*active)
	return a
}

// with returns a context with a span, also for the code of users.
func (a *active) with(ctx context.Context) context.Context {
	return oteltrace.ContextWithSpan(context.WithValue(ctx, activeKey{}, a), a.span)
}

// On reports whether a context belongs to a trace, even if the trace is not sampled.
func On(ctx context.Context) bool { return activeIn(ctx) != nil }

// Without returns a context whose further spans have none of the values.
func Without(ctx context.Context, values *redact.Values) context.Context {
	a := activeIn(ctx)
	if a == nil {
		return ctx
	}
	masked := *a
	masked.secrets = values
	return context.WithValue(ctx, activeKey{}, &masked)
}

// The kinds of spans within a run.
const (
	Internal = oteltrace.SpanKindInternal
	Client   = oteltrace.SpanKindClient
)

// Start starts a span within that of the context. Its name are the words, and has to be one of few. It is off if the
// context has none, or if the trace is not sampled.
func Start(ctx context.Context, kind oteltrace.SpanKind, words ...string) (context.Context, Span) {
	parent := activeIn(ctx)
	if parent == nil || !parent.span.IsRecording() {
		return ctx, Span{}
	}
	child := *parent
	child.span = parent.tracer.start(ctx, strings.Join(words, " "), oteltrace.WithSpanKind(kind))
	return child.with(ctx), child.of()
}

// start starts a span, which the caller ends.
func (t *Tracer) start(ctx context.Context, name string, options ...oteltrace.SpanStartOption) oteltrace.Span {
	_, span := t.tracer.Start(ctx, name, options...) //nolint:spancheck // As the comment says.
	return span                                      //nolint:spancheck // As the comment says.
}

// Current returns the innermost span of a context.
func Current(ctx context.Context) Span {
	if a := activeIn(ctx); a != nil {
		return a.of()
	}
	return Span{}
}

func (a *active) of() Span { return Span{a.span, a.secrets} }

// Span is one span. The zero Span is off.
type Span struct {
	span oteltrace.Span
	// secrets are values that no text of the span has.
	secrets *redact.Values
}

// On reports whether attributes are recorded.
func (s Span) On() bool { return s.span != nil && s.span.IsRecording() }

// Set sets an attribute, unless it is empty.
func (s Span) Set(key, value string) {
	if s.On() && value != "" {
		s.span.SetAttributes(attribute.String(key, s.secrets.Text(value)))
	}
}

// SetInt sets an attribute.
func (s Span) SetInt(key string, value int) {
	if s.On() {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// Without returns the span, whose further texts have none of the values.
func (s Span) Without(values *redact.Values) Span { return Span{s.span, values} }

// End ends the span with its error, if there is one.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil && s.On() {
		s.span.SetStatus(codes.Error, s.secrets.Text(err.Error()))
	}
	s.span.End()
}

// ID returns the ID of the trace; empty if it is not recorded.
func (s Span) ID() string {
	if !s.On() {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// LogAttrs are the attributes of the span's log lines; none if it is not recorded.
func (s Span) LogAttrs() []any {
	if !s.On() {
		return nil
	}
	at := s.span.SpanContext()
	return []any{"trace_id", at.TraceID().String(), "span_id", at.SpanID().String()}
}

// APIRequest is a request to the API server.
type APIRequest struct {
	Verb, Resource, Kind string
	Namespace, Name      string
	// Write means that it may change the object.
	Write bool
}

// Sent is a request without a response. The zero value is off.
type Sent struct {
	Span

	tracer *Tracer
	write  *write
}

// StartRequest starts the span of a request to the API server, and remembers a write.
func StartRequest(ctx context.Context, request APIRequest) (context.Context, Sent) {
	a := activeIn(ctx)
	if a == nil {
		return ctx, Sent{}
	}
	ctx, span := Start(ctx, Client, request.Verb, request.Resource)
	span.Set(AttrResource, request.Resource)
	span.Set(AttrKind, request.Kind)
	span.Set(AttrNamespace, request.Namespace)
	span.Set(AttrName, request.Name)
	sent := Sent{Span: span, tracer: a.tracer}
	if at := oteltrace.SpanContextFromContext(ctx); request.Write && at.IsValid() {
		sent.write = &write{object: Object{request.Kind, request.Namespace, request.Name}, span: at, by: a.uid, depth: a.depth}
		a.tracer.writes.begin(sent.write)
	}
	return ctx, sent
}

// Started reports whether the request belongs to a trace, even if that is not sampled.
func (s Sent) Started() bool { return s.tracer != nil }

// Stored ends the request. The version is that of the stored object, 0 if it is not known.
func (s Sent) Stored(uid string, version uint64) {
	if s.write != nil {
		s.tracer.writes.end(s.write, version)
	}
	s.Set(AttrUID, uid)
	if version > 0 {
		s.Set(AttrVersion, strconv.FormatUint(version, 10))
	}
	s.End(nil)
}

// Failed ends a request with an error of a type.
func (s Sent) Failed(errorType string, err error) {
	if s.write != nil {
		s.tracer.writes.end(s.write, 0)
	}
	s.Set(AttrErrorType, errorType)
	s.End(err)
}

// Header returns a header with the trace of a context, for a request in it; the header itself if it has none.
func Header(ctx context.Context, header http.Header) http.Header {
	if !On(ctx) {
		return header
	}
	header = header.Clone()
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	return header
}

// Headers returns the headers traceparent and tracestate of the context's trace; none without one.
func Headers(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	if On(ctx) {
		propagation.TraceContext{}.Inject(ctx, headers)
	}
	return headers
}

// AnnotationOf returns the value of the Annotation for an object that is written in a context; empty for none.
func AnnotationOf(ctx context.Context) string {
	if a := activeIn(ctx); a == nil || !a.tracer.annotate {
		return ""
	}
	return Headers(ctx)[traceparent]
}

// Line returns a JSON object with the trace of a context as its first members; the object itself if it has none.
func Line(ctx context.Context, object []byte) []byte {
	if !On(ctx) || len(object) < 2 || object[0] != '{' {
		return object
	}
	headers := Headers(ctx)
	line, _ := json.Marshal(headers) //nolint:errchkjson // Texts.
	switch {
	case len(headers) == 0:
		return object
	case object[1] == '}':
		return line
	}
	line[len(line)-1] = ','
	return append(line, object[1:]...)
}

// StartReview starts the span of a review, in the trace of the caller.
func (t *Tracer) StartReview(ctx context.Context, header http.Header, controller, webhook string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	from := propagation.TraceContext{}.Extract(oteltrace.ContextWithSpanContext(ctx, oteltrace.SpanContext{}),
		propagation.HeaderCarrier(header))
	a := &active{tracer: t}
	a.span = t.start(from, "review "+webhook, oteltrace.WithSpanKind(oteltrace.SpanKindServer))
	span := a.of()
	span.Set(AttrController, controller)
	span.Set(AttrWebhook, webhook)
	return a.with(ctx), span
}
