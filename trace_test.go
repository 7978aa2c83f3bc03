package setpoint

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
)

func TestWhereSpansGo(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	own := noop.NewTracerProvider()
	given, err := (&Options{TracerProvider: own, TraceAnnotations: true}).traces()
	if err != nil || given.Provider != own || !given.Annotate {
		t.Errorf("the provider of the program: %+v, %v", given, err)
	}
	sent, err := (&Options{TraceAnnotations: true}).traces()
	if err != nil || sent.Endpoint != "http://collector:4318/v1/traces" || !sent.Annotate {
		t.Errorf("the environment: %+v, %v", sent, err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	if _, err := (&Options{}).traces(); err == nil || !strings.Contains(err.Error(), "$OTEL_TRACES_EXPORTER") {
		t.Errorf("a wrong variable: %v", err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if none, err := (&Options{}).traces(); err != nil || none != nil {
		t.Errorf("off: %+v, %v", none, err)
	}
}
