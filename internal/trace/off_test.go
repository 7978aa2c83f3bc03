package trace_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/trace"
)

// whatARunDoes is every call that a reconcile with a hook and a write makes.
func whatARunDoes(ctx context.Context, header http.Header, body []byte, failed error) int {
	call, span := trace.Start(ctx, trace.Client, "hook", "sync")
	trace.Current(call).Set(trace.AttrURL, "http://hooks/sync")
	sent := trace.Header(call, header)
	line := trace.Line(call, body)
	span.SetInt(trace.AttrStatus, http.StatusOK)
	span.End(failed)
	if trace.On(ctx) {
		panic("traces are off")
	}
	return len(sent) + len(line) + len(span.LogAttrs()) + len(span.ID()) + len(trace.AnnotationOf(ctx))
}

func TestOffAllocatesNothing(t *testing.T) {
	ctx, header, body, failed := context.WithValue(t.Context(), http.NoBody, 1), http.Header{"Accept": {"application/json"}}, []byte(`{"a":1}`), errors.New("no")
	if allocs := testing.AllocsPerRun(1000, func() { whatARunDoes(ctx, header, body, failed) }); allocs != 0 {
		t.Errorf("a run without traces allocates %v times", allocs)
	}
	var none *trace.Tracer
	if allocs := testing.AllocsPerRun(1000, func() { none.StartReview(ctx, header, "policies", "check") }); allocs != 0 {
		t.Errorf("a review without traces allocates %v times", allocs)
	}
}

func BenchmarkOff(b *testing.B) {
	ctx, header, body := b.Context(), http.Header{"Accept": {"application/json"}}, []byte(`{"a":1}`)
	b.ReportAllocs()
	for b.Loop() {
		whatARunDoes(ctx, header, body, nil)
	}
}

func BenchmarkOn(b *testing.B) {
	tracer, _ := recorded(false)
	body := []byte(`{"a":1}`)
	b.ReportAllocs()
	for b.Loop() {
		ctx, run := tracer.StartRun(b.Context(), &trace.Run{Controller: "teams", Object: trace.Object{Kind: "Team", Name: "red"}, UID: "u"})
		call, span := trace.Start(ctx, trace.Client, "hook", "sync")
		trace.Line(call, body)
		span.End(nil)
		run.EndRun("synced", false, nil)
	}
}
