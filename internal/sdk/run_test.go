package sdk

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	tracing "github.com/setpoint-dev/setpoint/internal/trace"
)

func TestWhereSpansGo(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	own := noop.NewTracerProvider()
	given, err := tracesOf(&tracing.Config{Provider: own, Annotate: true})
	if err != nil || given.Provider != own || !given.Annotate {
		t.Errorf("the provider of the program: %+v, %v", given, err)
	}
	sent, err := tracesOf(&tracing.Config{Annotate: true})
	if err != nil || !sent.Annotate {
		t.Errorf("the environment: %+v, %v", sent, err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	if _, err := tracesOf(&tracing.Config{}); err == nil || !strings.Contains(err.Error(), "$OTEL_TRACES_EXPORTER") {
		t.Errorf("a wrong variable: %v", err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if none, err := tracesOf(&tracing.Config{}); err != nil || none != nil {
		t.Errorf("off: %+v, %v", none, err)
	}
}

func TestStartAndStop(t *testing.T) {
	app := NewApp("app")
	var done []string
	app.OnStart(func(context.Context) error { done = append(done, "start"); return nil })
	app.OnStop(func(ctx context.Context) error { done = append(done, "stop"); return ctx.Err() })
	ctx, cancel := context.WithCancel(t.Context())
	err := app.runLifecycle(ctx, func() error { done = append(done, "work"); cancel(); return nil })
	if got := strings.Join(done, " "); got != "start work stop" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	broken := errors.New("broken")
	app.OnStart(func(context.Context) error { return broken })
	if err := app.runLifecycle(t.Context(), func() error { t.Error("works"); return nil }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
