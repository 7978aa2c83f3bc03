package trace_test

import (
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/trace"
)

func TestFromEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		environment string
		on          bool
		err         string
	}{
		{"", false, ""},
		{endpoint + "=http://c:4318", true, ""},
		{endpoint + "=https://c/otlp/", true, ""},
		{endpoint + "=http://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/in", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none " + endpoint + "=http://c", false, ""},
		{"OTEL_SDK_DISABLED=true " + endpoint + "=nonsense", false, ""},
		{"OTEL_SERVICE_NAME=x", false, ""},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.1 " + endpoint + "=http://c", true, ""},
		{"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x,b=c " + endpoint + "=http://c", true, ""},
		{endpoint + "=\u00a0http://c:4318\u00a0", true, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf " + endpoint + "=http://c", true, ""},

		{"OTEL_TRACES_EXPORTER=jaeger", false, `$OTEL_TRACES_EXPORTER must be otlp or none, not "jaeger"`},
		{endpoint + "=c:4318", false, `$OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as http://collector:4318`},
		{endpoint + "=http://u:hunter2@c:no", false, `$OTEL_EXPORTER_OTLP_ENDPOINT must be a URL`},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc " + endpoint + "=http://c:4317", false, `$OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be http/protobuf, not "grpc": a collector receives it at port 4318`},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=b,hunter2 " + endpoint + "=http://c", false, `$OTEL_EXPORTER_OTLP_HEADERS: item 2 is not name=value`},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization:hunter2== " + endpoint + "=http://c", false, `$OTEL_EXPORTER_OTLP_TRACES_HEADERS: item 1 is not name=value`},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=hunter2% " + endpoint + "=http://c", false, `$OTEL_EXPORTER_OTLP_HEADERS: item 1 is not name=value`},
	} {
		t.Run(c.environment, func(t *testing.T) {
			for _, variable := range os.Environ() {
				if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
					t.Setenv(name, "")
				}
			}
			for variable := range strings.SplitSeq(c.environment, " ") {
				if name, value, found := strings.Cut(variable, "="); found {
					t.Setenv(name, value)
				}
			}
			config, err := trace.FromEnvironment()
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error is %v", err)
				}
			case err != nil:
				t.Error(err)
			case (config != nil) != c.on:
				t.Errorf("the configuration is %+v", config)
			}
		})
	}
}
