package trace_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// recorded returns a Tracer and the spans that have ended.
func recorded(annotate bool, options ...sdk.TracerProviderOption) (*trace.Tracer, func() tracetest.SpanStubs) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(append(options, sdk.WithSyncer(spans))...)
	return trace.New(provider, "test", annotate), spans.GetSpans
}

// object is one of the objects of the tests; its UID is its name.
func object(kind, name string) trace.Object {
	return trace.Object{Kind: kind, Namespace: "shop", Name: name}
}

// start starts a run of an object because of causes.
func start(t *testing.T, tracer *trace.Tracer, o trace.Object, causes ...trace.Cause) (context.Context, trace.Reconcile) {
	t.Helper()
	return tracer.StartRun(t.Context(), &trace.Run{Controller: "of " + o.Kind, Object: o, UID: o.Name, Causes: causes})
}

// write writes an object, and end ends that as a version.
func write(ctx context.Context, o trace.Object) (end func(version uint64)) {
	_, sent := trace.StartRequest(ctx, trace.APIRequest{Verb: "create", Resource: strings.ToLower(o.Kind) + "s", Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Write: true})
	return func(version uint64) { sent.Stored(o.Name, version) }
}

func changed(o trace.Object, version uint64) trace.Cause {
	return trace.Cause{Text: "changed", Object: o, Version: version}
}

func find(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %q", name)
	}
	return spans[i]
}

func TestThreeLevelsAreOneTrace(t *testing.T) {
	tracer, spans := recorded(false)
	parent, child, grandchild := object("Region", "eu"), object("Site", "eu-1"), object("Host", "eu-1-a")

	ctx, top := start(t, tracer, parent)
	stored := write(ctx, child)
	// The event of the child may come before the response to its write, or after it.
	early, middle := start(t, tracer, child, changed(child, 7))
	stored(7)
	write(early, grandchild)(8)
	middle.EndRun("synced", false, nil)
	top.EndRun("synced", false, nil)
	_, bottom := start(t, tracer, grandchild, changed(grandchild, 8))
	bottom.EndRun("synced", false, nil)
	// What goes up begins a new trace.
	_, up := start(t, tracer, parent, trace.Cause{Text: "child changed", Object: child, Version: 7})
	up.EndRun("skipped", false, nil)

	all := spans()
	for _, want := range [][2]string{{"reconcile Site", "create sites"}, {"reconcile Host", "create hosts"}} {
		below, above := find(t, all, want[0]), find(t, all, want[1])
		if below.Parent.SpanID() != above.SpanContext.SpanID() || below.SpanContext.TraceID() != all[0].SpanContext.TraceID() {
			t.Errorf("%s is not below %s", want[0], want[1])
		}
		if len(below.Links) != 1 || below.Links[0].SpanContext.SpanID() != above.SpanContext.SpanID() {
			t.Errorf("%s has the links %v", want[0], below.Links)
		}
	}
	last := all[len(all)-1]
	if last.Parent.IsValid() || last.SpanContext.TraceID() == all[0].SpanContext.TraceID() || len(last.Links) != 1 ||
		last.Links[0].SpanContext.SpanID() != find(t, all, "create sites").SpanContext.SpanID() {
		t.Errorf("the reconcile because of a child has the parent %v and the links %v", last.Parent, last.Links)
	}
}

func TestOtherChangesAreNotLinked(t *testing.T) {
	tracer, spans := recorded(false)
	child := object("Site", "eu-1")
	ctx, top := start(t, tracer, object("Region", "eu"))
	write(ctx, child)(7)
	top.EndRun("synced", false, nil)
	for name, cause := range map[string]trace.Cause{
		"a later version": changed(child, 9), "another object": changed(object("Site", "eu-2"), 7), "no version": changed(child, 0),
	} {
		_, run := start(t, tracer, child, cause)
		run.EndRun("synced", false, nil)
		if last := spans()[len(spans())-1]; len(last.Links) > 0 || last.Parent.IsValid() {
			t.Errorf("%s: is linked", name)
		}
	}
	// A controller that changes its own object begins a new trace each time.
	ctx, own := start(t, tracer, child)
	write(ctx, child)(10)
	own.EndRun("synced", false, nil)
	_, next := start(t, tracer, child, changed(child, 10))
	next.EndRun("synced", false, nil)
	if last := spans()[len(spans())-1]; len(last.Links) != 1 || last.Parent.IsValid() {
		t.Errorf("its own write: links %v, parent %v", last.Links, last.Parent)
	}
}

func TestTracesEnd(t *testing.T) {
	tracer, spans := recorded(false)
	objects := []trace.Object{object("Ping", "a"), object("Pong", "b")}
	_, run := start(t, tracer, objects[0])
	run.EndRun("synced", false, nil)
	traces := map[oteltrace.TraceID]int{}
	for version := range uint64(100) {
		from, to := objects[version%2], objects[(version+1)%2]
		ctx, run := start(t, tracer, from, changed(from, version))
		write(ctx, to)(version + 1)
		run.EndRun("synced", false, nil)
	}
	for _, s := range spans() {
		traces[s.SpanContext.TraceID()]++
	}
	for id, spans := range traces {
		if spans > 40 {
			t.Errorf("the trace %s has %d spans", id, spans)
		}
	}
}

func TestRetriesAreLinked(t *testing.T) {
	tracer, spans := recorded(false)
	for attempt := range 2 {
		_, run := tracer.StartRun(t.Context(), &trace.Run{Controller: "teams", Object: object("Team", "red"), UID: "u", Attempt: attempt})
		run.EndRun("failed", true, errors.New("sync hook: refused"))
	}
	all := spans()
	if len(all[1].Links) != 1 || all[1].Links[0].SpanContext.SpanID() != all[0].SpanContext.SpanID() {
		t.Errorf("the retry has the links %v", all[1].Links)
	}
	if all[0].Status.Code != codes.Error || all[0].Status.Description != "sync hook: refused" {
		t.Errorf("the failed run has the status %v", all[0].Status)
	}
}

// Errors and names in spans have no values of the Secrets that the run has seen.
func TestSpansHaveNoSecrets(t *testing.T) {
	tracer, spans := recorded(false)
	quoting := errors.New("invalid value hunter2")
	values := redact.In([]byte(`{"apiVersion":"v1","kind":"Secret","stringData":{"password":"hunter2"}}`))
	ctx, run := tracer.StartRun(t.Context(), &trace.Run{Object: object("Team", "red"), Secrets: values})
	_, call := trace.Start(ctx, trace.Client, "hook", "sync")
	call.End(quoting)
	_, sent := trace.StartRequest(ctx, trace.APIRequest{Verb: "create", Resource: "configmaps", Name: "no_name_hunter2", Write: true})
	sent.Failed("Invalid", quoting)
	run.EndRun("failed", true, quoting)
	_, postponed := tracer.StartRun(t.Context(), &trace.Run{Object: object("Team", "red"), Secrets: values})
	postponed.EndRun("postponed", false, quoting)
	ctx, review := tracer.StartReview(t.Context(), http.Header{}, "policies", "check")
	_, admit := trace.Start(trace.Without(ctx, values), trace.Client, "hook", "admit")
	admit.End(quoting)
	review.Without(values).End(quoting)
	for _, s := range spans() {
		if text := fmt.Sprint(s); strings.Contains(text, "hunter2") || !strings.Contains(text, "invalid value "+redact.Mask) {
			t.Errorf("%s", text)
		}
	}
}

func TestUnsampledRuns(t *testing.T) {
	tracer, spans := recorded(false, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	child := object("Site", "eu-1")
	ctx, top := start(t, tracer, object("Region", "eu"))
	if header := trace.Header(ctx, http.Header{}).Get("Traceparent"); !strings.HasSuffix(header, "-00") {
		t.Errorf("traceparent is %q", header)
	}
	write(ctx, child)(7)
	top.EndRun("synced", false, nil)
	below, run := start(t, tracer, child, changed(child, 7))
	if top, below := oteltrace.SpanContextFromContext(ctx), oteltrace.SpanContextFromContext(below); top.TraceID() != below.TraceID() {
		t.Errorf("the child is in the trace %s, not in %s", below.TraceID(), top.TraceID())
	}
	if run.ID() != "" || run.LogAttrs() != nil || len(spans()) > 0 {
		t.Error("an unsampled run is recorded")
	}
}

func TestRequestsCarryTheTrace(t *testing.T) {
	tracer, _ := recorded(true)
	ctx, run := start(t, tracer, object("Team", "red"))
	shared := http.Header{"Accept": {"application/json"}}
	header := trace.Header(ctx, shared).Get("Traceparent")
	if len(header) != 55 || !strings.Contains(header, run.ID()) || len(shared) != 1 {
		t.Errorf("traceparent is %q, and the shared header %v", header, shared)
	}
	for body, want := range map[string]string{
		`{"a":1}`: `{"traceparent":"` + header + `","a":1}`,
		`{}`:      `{"traceparent":"` + header + `"}`,
		`[1]`:     `[1]`,
	} {
		if line := string(trace.Line(ctx, []byte(body))); line != want {
			t.Errorf("the line of %s is %s", body, line)
		}
	}
	if value := trace.AnnotationOf(ctx); value != header {
		t.Errorf("the annotation is %q", value)
	}
	quiet, _ := recorded(false)
	if ctx, _ := start(t, quiet, object("Team", "red")); trace.AnnotationOf(ctx) != "" {
		t.Error("an annotation without the setting")
	}
}

func TestAnnotationIsLinked(t *testing.T) {
	const other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for value, links := range map[string]int{other: 1, "": 0, "nonsense": 0, "00-00000000000000000000000000000000-0000000000000000-01": 0} {
		tracer, spans := recorded(false)
		_, run := tracer.StartRun(t.Context(), &trace.Run{Object: object("Team", "red"), Annotation: value})
		run.EndRun("synced", false, nil)
		if got := spans()[0]; len(got.Links) != links || got.Parent.IsValid() {
			t.Errorf("the annotation %q leads to the links %v and the parent %v", value, got.Links, got.Parent)
		}
		_, again := tracer.StartRun(t.Context(), &trace.Run{Object: object("Team", "red"), Annotation: value})
		again.EndRun("synced", false, nil)
		if got := spans()[1]; len(got.Links) > 0 {
			t.Errorf("a later run links the annotation again: %v", got.Links)
		}
	}
}

func TestReviewsContinueTheCallersTrace(t *testing.T) {
	const trusted = "4bf92f3577b34da6a3ce929d0e0e4736"
	tracer, spans := recorded(false)
	ctx, span := tracer.StartReview(t.Context(), http.Header{"Traceparent": {"00-" + trusted + "-00f067aa0ba902b7-01"}}, "policies", "check")
	_, call := trace.Start(ctx, trace.Client, "hook", "admit")
	call.End(errors.New("refused"))
	span.End(nil)
	for _, s := range spans() {
		if s.SpanContext.TraceID().String() != trusted {
			t.Errorf("%s is in the trace %s", s.Name, s.SpanContext.TraceID())
		}
	}
	_, alone := tracer.StartReview(t.Context(), http.Header{"Traceparent": {"nonsense"}}, "policies", "check")
	alone.End(nil)
	if last := spans()[2]; last.Parent.IsValid() {
		t.Errorf("a review without a valid trace has the parent %v", last.Parent)
	}
}
