package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

const (
	// stopTimeout is how long the spans that are left may take to be sent at the end.
	stopTimeout = 5 * time.Second
	// maxError limits the characters of a logged error, which quotes such a response.
	maxError = 300
)

// Reasons why spans are dropped.
const (
	// DroppedQueueFull: they come faster than the collector takes them.
	DroppedQueueFull = "QueueFull"
	// DroppedNotExported: the collector cannot be reached, or refuses them.
	DroppedNotExported = "NotExported"
)

// Process describes the process whose spans are sent.
type Process struct {
	// Service is the name unless the environment has one.
	Service, Version string
	Log              *slog.Logger
	// Dropped counts spans that are not sent.
	Dropped func(reason string, spans int)
}

// Start returns a Tracer that sends spans to a collector in the background, and what sends those that are left. It
// does not connect. A collector that hangs costs spans, no time.
func (c *Config) Start(ctx context.Context, p Process) (*Tracer, func(), error) {
	if c == nil {
		return nil, func() {}, nil
	}
	if c.Provider != nil {
		return New(c.Provider, p.Version, c.Annotate), func() {}, nil
	}
	host, _ := os.Hostname() // In a pod, its name. Without one the attribute is empty.
	of, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", p.Service), attribute.String("service.version", p.Version),
		attribute.String("service.instance.id", host)), resource.WithFromEnv()) // The environment wins.
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	sender, err := otlptracehttp.New(ctx,
		// Longer retries would only fill the queue.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second,
			MaxElapsedTime: 15 * time.Second}))
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	size, err := strconv.Atoi(os.Getenv(envQueue))
	if err != nil || size <= 0 { // The library reads it so.
		size = sdk.DefaultMaxQueueSize
	}
	counted := &exporter{SpanExporter: sender, process: p, endpoint: c.endpoint}
	provider := sdk.NewTracerProvider(sdk.WithResource(of), sdk.WithSpanProcessor(
		&boundedProcessor{SpanProcessor: sdk.NewBatchSpanProcessor(counted), exporter: counted, limit: int64(size)}))
	p.Log.Info("sends traces", "endpoint", counted.endpoint)
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = provider.Shutdown(ctx) // The exporter has counted and logged what is lost.
		if left := counted.pending.Swap(0); left > 0 {
			counted.fail(int(left), errors.New("the collector did not take the last spans in time"))
		}
	}
	return New(provider, p.Version, c.Annotate), stop, nil
}

// boundedProcessor drops spans before the queue of its processor is full, which would drop them silently. It leaves out
// reconciles that found nothing to do, which no span is below or links.
type boundedProcessor struct {
	sdk.SpanProcessor

	exporter *exporter
	limit    int64
}

// OnEnd implements sdk.SpanProcessor.
func (b *boundedProcessor) OnEnd(s sdk.ReadOnlySpan) {
	idle := !s.Parent().IsValid() && s.ChildSpanCount() == 0 && slices.Contains(s.Attributes(), attribute.String(AttrOutcome, "skipped"))
	switch {
	case !s.SpanContext().IsSampled(), idle:
	case b.exporter.pending.Add(1) > b.limit:
		b.exporter.pending.Add(-1)
		b.exporter.process.Dropped(DroppedQueueFull, 1)
		if !b.exporter.overflowed.Swap(true) { // Once: an overload would write a line for each batch.
			b.exporter.process.Log.Warn("spans are dropped: they come faster than the collector takes them; sample fewer traces, or set $"+
				envQueue, "endpoint", b.exporter.endpoint)
		}
	default:
		b.SpanProcessor.OnEnd(s)
	}
}

// exporter counts and logs what is not sent, once until it works again.
type exporter struct {
	sdk.SpanExporter

	process  Process
	endpoint string
	// pending are the spans that have ended and are neither sent nor dropped.
	pending atomic.Int64
	// failing means that the latest export failed, and overflowed that the queue was full once.
	failing, overflowed atomic.Bool
}

// ExportSpans implements sdk.SpanExporter. It returns no error: the library would print each one.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.pending.Add(-int64(len(spans)))
	if err != nil {
		e.fail(len(spans), err)
		return nil
	}
	if e.failing.Swap(false) {
		e.process.Log.Info("traces are sent", "endpoint", e.endpoint)
	}
	return nil
}

func (e *exporter) fail(spans int, err error) {
	e.process.Dropped(DroppedNotExported, spans)
	if !e.failing.Swap(true) {
		line := strconv.Quote(failure.Truncate(strings.ToValidUTF8(err.Error(), "?"), maxError))
		e.process.Log.Warn("traces are not sent", "endpoint", e.endpoint, "error", strings.Trim(line, `"`))
	}
}
