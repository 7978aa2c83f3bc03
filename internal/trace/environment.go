package trace

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	oteltrace "go.opentelemetry.io/otel/trace"
)

// Config says where spans go. A nil Config is off.
type Config struct {
	// Annotate sets the Annotation of new children.
	Annotate bool
	// Provider gets the spans instead of the collector in the environment, if set.
	Provider oteltrace.TracerProvider

	// endpoint is that of the environment, without a password.
	endpoint string
}

// Names of environment variables. Those with "TRACES_" win over those without. The library reads them and the others.
const (
	envDisabled = "OTEL_SDK_DISABLED"
	envExporter = "OTEL_TRACES_EXPORTER"
	envQueue    = "OTEL_BSP_MAX_QUEUE_SIZE"
	envOTLP     = "OTEL_EXPORTER_OTLP_"
	envTraces   = "OTEL_EXPORTER_OTLP_TRACES_"
)

// FromEnvironment returns the configuration in the environment variables of OpenTelemetry; nil if traces are off, which they are unless
// a variable names an endpoint or the exporter. It checks what the library would only log, or ignore. Its errors name the variable.
func FromEnvironment() (*Config, error) {
	name, endpoint := otlp("ENDPOINT")
	exporter := os.Getenv(envExporter)
	switch {
	case strings.EqualFold(os.Getenv(envDisabled), "true"), exporter == "none", exporter == "" && name == "":
		return nil, nil //nolint:nilnil // Off is no error.
	case exporter != "" && exporter != "otlp":
		return nil, fmt.Errorf("traces: $%s must be otlp or none, not %q", envExporter, exporter)
	}
	if name, protocol := otlp("PROTOCOL"); name != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("traces: $%s must be http/protobuf, not %q: a collector receives it at port 4318", name, protocol)
	}
	to, err := url.Parse(cmp.Or(endpoint, "http://localhost:4318"))
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" { // The URL may have a password.
		return nil, fmt.Errorf("traces: $%s must be a URL such as http://collector:4318", name)
	}
	return &Config{endpoint: to.Redacted()}, checkHeaders()
}

// otlp returns the variable that sets a value of the exporter, and the value; both empty if none does.
func otlp(what string) (name, value string) {
	for _, prefix := range []string{envTraces, envOTLP} {
		if value := strings.TrimSpace(os.Getenv(prefix + what)); value != "" {
			return prefix + what, value
		}
	}
	return "", ""
}

// checkHeaders checks what the library would print, with the values, which may be secret. Its errors leave them out.
func checkHeaders() error {
	for _, variable := range []string{envOTLP + "HEADERS", envTraces + "HEADERS"} {
		for number, pair := range strings.Split(os.Getenv(variable), ",") {
			key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			_, err := url.PathUnescape(value)
			// "authorization: Bearer abc==" has its secret in front of the "=".
			if key != "" && !found || strings.ContainsAny(strings.TrimSpace(key), ": \t") || err != nil {
				return fmt.Errorf("traces: $%s: item %d is not name=value", variable, number+1)
			}
		}
	}
	return nil
}
