package trace

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

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

// StartRequest starts the span of a request to the API server, and remembers a write. Call it only if On(ctx).
func StartRequest(ctx context.Context, request APIRequest) (context.Context, Sent) {
	a := activeIn(ctx)
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
	for name, value := range Headers(ctx) {
		header.Set(name, value)
	}
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
