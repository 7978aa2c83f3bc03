package trace

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Annotation is the annotation in which KEP-5915 stores the trace of who wrote an object, for controllers in other
// processes.
const Annotation = "tracing.k8s.io/traceparent"

const traceparent = "traceparent"

// AnnotationOf returns the value of the Annotation for an object that is written in a context; empty for none.
func AnnotationOf(ctx context.Context) string {
	a := activeIn(ctx)
	if a == nil || !a.tracer.annotate {
		return ""
	}
	return Headers(ctx)[traceparent]
}

// parseTraceparent returns an invalid context for a value that is none.
func parseTraceparent(value string) oteltrace.SpanContext {
	if value == "" {
		return oteltrace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: value})
	return oteltrace.SpanContextFromContext(ctx)
}
