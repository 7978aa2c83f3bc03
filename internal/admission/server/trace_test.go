package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// collected returns what a collector receives of a review whose hook fails.
func collected(t *testing.T, review []byte) string {
	t.Helper()
	var received bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&received, r.Body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	config := must.Get(trace.FromEnvironment()).In(t)
	tracer, stop, err := config.Start(t.Context(), trace.Process{Service: "setpoint", Log: slog.New(slog.DiscardHandler), Dropped: func(reason string, spans int) {
		t.Errorf("%d spans are dropped: %s", spans, reason)
	}})
	must.Succeed(t, err)
	s := New(Options{Tracer: tracer})
	s.Set([]*admission.Program{programOf(func(ctx context.Context, _ *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		err := errors.New("invalid value hunter2")
		_, span := trace.Start(ctx, trace.Client, "hook", "admit")
		span.End(err)
		return nil, err
	})})
	post(s, "/admit/web/check", review)
	stop()
	collector.Close() // It waits for the handler.
	return received.String()
}

func TestTracesHaveNoSecrets(t *testing.T) {
	const create = `"operation":"CREATE","object":{"apiVersion":"v1","kind":"Pod","stringData":{"password":"hunter2"}}`
	if spans := collected(t, reviewOf(create)); strings.Count(spans, "hunter2") != 2 {
		t.Errorf("the spans of a review and its hook lack the error: %q", spans)
	}
	spans := collected(t, []byte(secretReview(create)))
	if strings.Contains(spans, "hunter2") || strings.Count(spans, "invalid value "+redact.Mask) != 2 {
		t.Errorf("the spans of a review of a Secret and its hook are %q", spans)
	}
}

// An event quotes a value that only the response has: the webhook made it up.
func TestEventsHaveNoSecretsOfTheResponse(t *testing.T) {
	observer := &recordingObserver{}
	s := New(Options{Observer: observer})
	s.Set([]*admission.Program{programOf(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		said := hook.Event{Type: "Normal", Reason: "Made", Message: "made hunter2-made-up"}
		return &hook.ReviewResponse{
			Patch:  []byte(`{"stringData":{"password":"hunter2-made-up"}}`),
			Events: []hook.ObjectEvent{{Event: said, APIVersion: "v1", Kind: "Secret", Name: "a"}},
		}, nil
	})})
	post(s, "/admit/web/check", []byte(secretReview(`"operation":"CREATE","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`)))
	if len(observer.events) != 1 || observer.events[0].Message != "made "+redact.Mask {
		t.Errorf("got %+v", observer.events)
	}
}

// secretReview returns a review of a Secret.
func secretReview(members string) string {
	return strings.NewReplacer(`"Pod"`, `"Secret"`, `"pods"`, `"secrets"`).Replace(string(reviewOf(members)))
}
