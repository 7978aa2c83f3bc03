package trace

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

const (
	// maxDepth is how many reconciles may be below each other in one trace. Controllers that write each other's objects
	// in turn would otherwise never end one.
	maxDepth = 16
	// maxRuns is how many objects keep the span of their latest failed attempt, and the latest annotation.
	maxRuns = 4096
)

// Run is one reconcile.
type Run struct {
	Controller, APIVersion string
	Object                 Object
	UID                    string
	// Annotation is the value of the Annotation of the object.
	Annotation string
	// Causes are listed, and More are not.
	Causes []Cause
	More   int
	// Attempt counts the failures in a row before.
	Attempt int
	Waited  time.Duration
	// Secrets are values that no text of its spans has.
	Secrets *redact.Values
}

// Cause is one cause of a Run.
type Cause struct {
	Text string
	// Object is the changed object. Version is its resource version, 0 if the cause is no change of an object.
	Object  Object
	Version uint64
}

type runKey struct{ controller, uid string }

func (r *Run) key() runKey { return runKey{r.Controller, r.UID} }

// Reconcile is the span of a Run.
type Reconcile struct {
	Span

	tracer *Tracer
	run    runKey
}

// StartRun starts the span of a run. It links the spans of its causes, as far as this process wrote them.
//
// If another object's reconcile wrote the object, the run continues that trace: so one trace shows parents, their
// children and the children of these. What goes up, such as the status of a child, begins a new one, so that traces end.
func (t *Tracer) StartRun(ctx context.Context, run *Run) (context.Context, Reconcile) {
	links, above := t.linksOf(run)
	options := []oteltrace.SpanStartOption{
		oteltrace.WithSpanKind(oteltrace.SpanKindConsumer), oteltrace.WithLinks(links...), oteltrace.WithAttributes(run.attributes()...),
	}
	a := &active{tracer: t, uid: run.UID, secrets: run.Secrets}
	from := ctx
	if above.span.IsValid() {
		from, a.depth = oteltrace.ContextWithSpanContext(ctx, above.span), above.depth+1
	} else {
		options = append(options, oteltrace.WithNewRoot())
	}
	a.span = t.start(from, "reconcile "+run.Object.Kind, options...)
	return a.with(ctx), Reconcile{a.of(), t, run.key()}
}

// linksOf returns links to the causes, and the write that the run continues; zero for none.
func (t *Tracer) linksOf(run *Run) (links []oteltrace.Link, above write) {
	for _, cause := range run.Causes {
		if cause.Version == 0 {
			continue
		}
		one, found := t.writes.find(cause.Object, cause.Version)
		if !found {
			continue
		}
		links = append(links, link(one.span, cause.Text))
		down := cause.Object == run.Object && one.by != run.UID && one.depth < maxDepth
		if down && run.Attempt == 0 && !above.span.IsValid() {
			above = one
		}
	}
	if run.Attempt > 0 {
		if last, failed := t.failures.Get(run.key()); failed {
			links = append(links, link(last.(oteltrace.SpanContext), "retry")) //nolint:forcetypeassert // It holds nothing else.
		}
	}
	other := t.newAnnotation(run)
	linked := slices.ContainsFunc(links, func(l oteltrace.Link) bool { return l.SpanContext.TraceID() == other.TraceID() })
	if other.IsValid() && !linked {
		links = append(links, link(other, "annotation "+Annotation))
	}
	return links, above
}

// newAnnotation returns what the annotation says, if no run has seen it. It stays when later changes have other causes.
func (t *Tracer) newAnnotation(run *Run) oteltrace.SpanContext {
	if run.Annotation == "" {
		return oteltrace.SpanContext{}
	}
	if last, _ := t.annotations.Get(run.key()); last == run.Annotation {
		return oteltrace.SpanContext{}
	}
	t.annotations.Add(run.key(), run.Annotation)
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: run.Annotation})
	return oteltrace.SpanContextFromContext(ctx)
}

func link(to oteltrace.SpanContext, cause string) oteltrace.Link {
	return oteltrace.Link{SpanContext: to, Attributes: []attribute.KeyValue{attribute.String(AttrCause, cause)}}
}

func (r *Run) attributes() []attribute.KeyValue {
	texts := lists.Map(r.Causes, func(cause Cause) string { return cause.Text })
	all := []attribute.KeyValue{
		attribute.String(AttrController, r.Controller),
		attribute.String(AttrAPIVersion, r.APIVersion), attribute.String(AttrKind, r.Object.Kind),
		attribute.String(AttrName, r.Object.Name), attribute.String(AttrUID, r.UID),
		attribute.StringSlice(AttrCauses, texts), attribute.Int(AttrAttempt, r.Attempt),
		attribute.Float64(AttrWaited, r.Waited.Seconds()),
	}
	if r.Object.Namespace != "" {
		all = append(all, attribute.String(AttrNamespace, r.Object.Namespace))
	}
	if r.More > 0 {
		all = append(all, attribute.Int(AttrMoreCauses, r.More))
	}
	return all
}

// EndRun ends the span.
func (r Reconcile) EndRun(outcome string, failed bool, err error) {
	if r.span == nil {
		return
	}
	r.Set(AttrOutcome, outcome)
	if failed {
		r.span.SetStatus(codes.Error, r.secrets.Text(failure.Text(err)))
		r.tracer.failures.Add(r.run, r.span.SpanContext())
	} else {
		r.Set(AttrMessage, failure.Text(err))
	}
	r.span.End()
}
