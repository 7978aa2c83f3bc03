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
		endpoint    string // "" means off
		err         string
	}{
		{"", "", ""},
		{endpoint + "=http://c:4318", "http://c:4318/v1/traces", ""},
		{endpoint + "=https://c/otlp/", "https://c/otlp/v1/traces", ""},
		{endpoint + "=http://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/in", "http://t/in", ""},
		{"OTEL_TRACES_EXPORTER=otlp", "http://localhost:4318/v1/traces", ""},
		{"OTEL_TRACES_EXPORTER=none " + endpoint + "=http://c", "", ""},
		{"OTEL_SDK_DISABLED=true " + endpoint + "=nonsense", "", ""},
		{"OTEL_SERVICE_NAME=x", "", ""},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.1 " + endpoint + "=http://c", "http://c/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x,b=c " + endpoint + "=http://c", "http://c/v1/traces", ""},
		{endpoint + "=\u00a0http://c:4318\u00a0", "http://c:4318/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf " + endpoint + "=http://c", "http://c/v1/traces", ""},

		{"OTEL_SDK_DISABLED=yes", "", `$OTEL_SDK_DISABLED must be true or false, not "yes"`},
		{"OTEL_TRACES_EXPORTER=jaeger", "", `$OTEL_TRACES_EXPORTER must be otlp or none, not "jaeger"`},
		{endpoint + "=c:4318", "", `$OTEL_EXPORTER_OTLP_ENDPOINT "c:4318": must begin with http:// or https://`},
		{endpoint + "=http://", "", `has no host`},
		{endpoint + "=http://u:hunter2@c:no", "", `$OTEL_EXPORTER_OTLP_ENDPOINT: invalid port`},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc " + endpoint + "=http://c:4317", "", `$OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be http/protobuf, not "grpc": a collector receives it at port 4318`},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=b,hunter2 " + endpoint + "=http://c", "", `$OTEL_EXPORTER_OTLP_HEADERS: item 2 is not name=value`},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization:hunter2== " + endpoint + "=http://c", "", `$OTEL_EXPORTER_OTLP_TRACES_HEADERS: item 1 is not name=value`},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=hunter2% " + endpoint + "=http://c", "", `the value of a has an invalid % sequence`},
		{"OTEL_BSP_MAX_QUEUE_SIZE=0 " + endpoint + "=http://c", "", `$OTEL_BSP_MAX_QUEUE_SIZE must be a number from 1 to 262144, not "0"`},
		{"OTEL_BSP_MAX_QUEUE_SIZE=9999999999 " + endpoint + "=http://c", "", `$OTEL_BSP_MAX_QUEUE_SIZE must be a number from 1 to 262144`},
		{"OTEL_BSP_SCHEDULE_DELAY=0 " + endpoint + "=http://c", "", `$OTEL_BSP_SCHEDULE_DELAY must be a number from 10 to 3600000, not "0"`},
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
			case (config == nil) != (c.endpoint == ""), config != nil && config.Endpoint != c.endpoint:
				t.Errorf("the configuration is %+v", config)
			}
		})
	}
}
