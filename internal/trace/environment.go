package trace

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Config says where spans go. A nil Config is off.
type Config struct {
	// Endpoint is the URL that spans are posted to.
	Endpoint string
	// Annotate sets the Annotation of new children.
	Annotate bool
	// Provider gets the spans instead of the Endpoint, if set.
	Provider oteltrace.TracerProvider

	queue int
}

// Names of environment variables. Those with "TRACES_" win over those without. The library reads the others.
const (
	envDisabled = "OTEL_SDK_DISABLED"
	envExporter = "OTEL_TRACES_EXPORTER"
	envQueue    = "OTEL_BSP_MAX_QUEUE_SIZE"
	envDelay    = "OTEL_BSP_SCHEDULE_DELAY"
	envOTLP     = "OTEL_EXPORTER_OTLP_"
	envTraces   = "OTEL_EXPORTER_OTLP_TRACES_"
)

const (
	defaultEndpoint = "http://localhost:4318"
	tracesPath      = "/v1/traces"
	// maxQueue keeps the memory of the queue below that of a small cache.
	maxQueue = 1 << 18
	// minDelay and maxDelay are milliseconds. With none, the processor waits for nothing, and uses a core.
	minDelay, maxDelay = 10, 3_600_000
)

// FromEnvironment returns the configuration in the environment variables of OpenTelemetry; nil if traces are off, which they are unless
// a variable names an endpoint or the exporter. Its errors name the variable.
func FromEnvironment() (*Config, error) {
	on, err := isOn()
	if !on || err != nil {
		return nil, err
	}
	c := &Config{}
	for _, read := range []func() error{c.readProtocol, c.readEndpoint, checkHeaders, c.readQueue, checkDelay} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
	}
	return c, nil
}

func isOn() (bool, error) {
	switch disabled := os.Getenv(envDisabled); strings.ToLower(disabled) {
	case "true":
		return false, nil
	case "", "false":
	default:
		return false, fmt.Errorf("$%s must be true or false, not %q", envDisabled, disabled)
	}
	switch exporter := os.Getenv(envExporter); exporter {
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	case "":
		name, _ := otlp("ENDPOINT")
		return name != "", nil
	default:
		return false, fmt.Errorf("$%s must be otlp or none, not %q", envExporter, exporter)
	}
}

// otlp returns the variable that sets a value of the exporter, and the value; both empty if none does.
func otlp(what string) (name, value string) {
	for _, prefix := range []string{envTraces, envOTLP} {
		// Files and templates leave spaces and line breaks around values.
		if value := strings.TrimSpace(os.Getenv(prefix + what)); value != "" {
			return prefix + what, value
		}
	}
	return "", ""
}

func (c *Config) readProtocol() error {
	name, protocol := otlp("PROTOCOL")
	if name == "" || protocol == "http/protobuf" {
		return nil
	}
	return fmt.Errorf("$%s must be http/protobuf, not %q: a collector receives it at port 4318", name, protocol)
}

func (c *Config) readEndpoint() error {
	name, value := otlp("ENDPOINT")
	endpoint, err := url.Parse(cmp.Or(value, defaultEndpoint))
	// The message of url.Error repeats the URL, including any password.
	if parse := (*url.Error)(nil); errors.As(err, &parse) {
		return fmt.Errorf("$%s: %w", name, parse.Err)
	}
	switch {
	case endpoint.Scheme != "http" && endpoint.Scheme != "https":
		return fmt.Errorf("$%s %q: must begin with http:// or https://", name, endpoint.Redacted())
	case endpoint.Hostname() == "":
		return fmt.Errorf("$%s %q: has no host", name, endpoint.Redacted())
	}
	if !strings.HasPrefix(name, envTraces) {
		endpoint = endpoint.JoinPath(tracesPath)
	}
	c.Endpoint = endpoint.String()
	return nil
}

// checkHeaders checks what the library would print, with the values, which may be secret. Its errors leave them out.
func checkHeaders() error {
	for _, variable := range []string{envOTLP + "HEADERS", envTraces + "HEADERS"} {
		for number, pair := range strings.Split(os.Getenv(variable), ",") {
			key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			// "authorization: Bearer abc==" has its secret in front of the "=".
			if key != "" && !found || strings.ContainsAny(strings.TrimSpace(key), ": \t") {
				return fmt.Errorf("$%s: item %d is not name=value", variable, number+1)
			}
			if _, err := url.PathUnescape(value); err != nil {
				return fmt.Errorf("$%s: the value of %s has an invalid %% sequence", variable, strings.TrimSpace(key))
			}
		}
	}
	return nil
}

func (c *Config) readQueue() (err error) {
	c.queue, err = numberBetween(envQueue, sdk.DefaultMaxQueueSize, 1, maxQueue)
	return err
}

// checkDelay checks the delay, which the library reads.
func checkDelay() error {
	_, err := numberBetween(envDelay, minDelay, minDelay, maxDelay)
	return err
}

func numberBetween(variable string, unset, from, to int) (int, error) {
	value := os.Getenv(variable)
	if value == "" {
		return unset, nil
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < from || number > to {
		return 0, fmt.Errorf("$%s must be a number from %d to %d, not %q", variable, from, to, value)
	}
	return number, nil
}
