package handler

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// spanningHandler starts a span of its own in each call, as handlers of users do.
type spanningHandler struct{ *fakeHandler }

func (h spanningHandler) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	_, own := oteltrace.SpanFromContext(ctx).TracerProvider().Tracer("user").Start(ctx, "read the rate")
	defer own.End()
	return h.fakeHandler.Handle(ctx, n)
}

// A run, the call of its handler, what the handler does, and the writes are one trace, which requests carry to the API
// server. A retry links the attempt before.
func TestHandlersHaveTheirSpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	s, e := newServer(t), newFakeHandler()
	s.tracer = trace.New(sdk.NewTracerProvider(sdk.WithSyncer(spans)), "test", false)
	failed := false
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if !failed {
			failed = true
			return nil, errors.New("no money")
		}
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"}}`)},
		}}, nil
	})
	st := e.start(t, s, program(trigger.Handler{
		Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Do: spanningHandler{e},
	}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "applied", func() bool { return s.get(configMaps, "eur") != nil })
	st.waitIdle(t)

	byName, last := map[string]tracetest.SpanStub{}, spans.GetSpans()
	var runs []tracetest.SpanStub
	for _, span := range last {
		byName[span.Name] = span
		if span.Name == "reconcile Rate" && span.ChildSpanCount > 0 {
			runs = append(runs, span)
		}
	}
	if runs[0].Status.Code != codes.Error || !strings.Contains(runs[0].Status.Description, "no money") {
		t.Errorf("the failed run has the status %+v", runs[0].Status)
	}
	run := runs[1]
	if len(run.Links) == 0 || run.Links[len(run.Links)-1].SpanContext.SpanID() != runs[0].SpanContext.SpanID() {
		t.Errorf("the retry has the links %+v", run.Links)
	}
	for below, above := range map[string]tracetest.SpanStub{"handler h": run, "read the rate": byName["handler h"], "create configmaps": run} {
		if span := byName[below]; span.Parent.SpanID() != above.SpanContext.SpanID() {
			t.Errorf("%q is not below %q", below, above.Name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	created := byName["create configmaps"].SpanContext
	for i, write := range s.writes {
		if strings.HasPrefix(write, "POST configmaps/") && s.traceparents[i] != "00-"+created.TraceID().String()+"-"+created.SpanID().String()+"-01" {
			t.Errorf("%s has the traceparent %q", write, s.traceparents[i])
		}
	}
}
