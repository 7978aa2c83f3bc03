package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

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

	headers map[string]string
	gzip    bool
	timeout time.Duration
	tls     *tls.Config
	sampler sdk.Sampler
	queue   int
}

// Names of environment variables. Those with "TRACES_" win over those without.
const (
	envDisabled = "OTEL_SDK_DISABLED"
	envExporter = "OTEL_TRACES_EXPORTER"
	envSampler  = "OTEL_TRACES_SAMPLER"
	envArgument = "OTEL_TRACES_SAMPLER_ARG"
	envQueue    = "OTEL_BSP_MAX_QUEUE_SIZE"
	envDelay    = "OTEL_BSP_SCHEDULE_DELAY"
	envResource = "OTEL_RESOURCE_ATTRIBUTES"
	envOTLP     = "OTEL_EXPORTER_OTLP_"
	envTraces   = "OTEL_EXPORTER_OTLP_TRACES_"
)

const (
	defaultEndpoint = "http://localhost:4318"
	tracesPath      = "/v1/traces"
	defaultTimeout  = 10 * time.Second
	defaultQueue    = 2048
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
	for _, read := range []func() error{c.readProtocol, c.readEndpoint, c.readHeaders, c.readTransfer, c.readTLS, c.readSampler, c.readQueue, c.readDelay, c.readResource} {
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

func (c *Config) readHeaders() error {
	c.headers = map[string]string{}
	for _, prefix := range []string{envOTLP, envTraces} {
		pairs, err := parsePairs(prefix + "HEADERS")
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			if err := checkHeader(name, pairs[name]); err != nil {
				return fmt.Errorf("$%sHEADERS: %w", prefix, err)
			}
		}
		maps.Copy(c.headers, pairs)
	}
	return nil
}

// checkHeader rejects what the HTTP client would at each export. Its errors leave out the value.
func checkHeader(name, value string) error {
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }):
		return fmt.Errorf("%q is no name of an HTTP header", name)
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return fmt.Errorf("the value of %s has a line break or another control character: remove it", name)
	}
	return nil
}

// parsePairs parses a variable such as "a=1,b=2%20". Its errors leave out values, which may be secret.
func parsePairs(variable string) (map[string]string, error) {
	pairs := map[string]string{}
	for number, pair := range strings.Split(os.Getenv(variable), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			return nil, fmt.Errorf("$%s: item %d is not name=value", variable, number+1)
		}
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("$%s: the value of %s has an invalid %% sequence", variable, key)
		}
		pairs[key] = plain
	}
	return pairs, nil
}

// readTransfer reads how long an export may take and how it is compressed.
func (c *Config) readTransfer() error {
	c.timeout = defaultTimeout
	if name, value := otlp("TIMEOUT"); name != "" {
		milliseconds, err := strconv.Atoi(value)
		if err != nil || milliseconds <= 0 {
			return fmt.Errorf("$%s must be a number of milliseconds greater than zero, not %q", name, value)
		}
		c.timeout = time.Duration(milliseconds) * time.Millisecond
	}
	switch name, value := otlp("COMPRESSION"); value {
	case "", "none":
	case "gzip":
		c.gzip = true
	default:
		return fmt.Errorf("$%s must be gzip or none, not %q", name, value)
	}
	return nil
}

// readTLS reads the CAs of the collector, and the certificate for it.
func (c *Config) readTLS() error {
	c.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if name, file := otlp("CERTIFICATE"); name != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("$%s: %w", name, err)
		}
		c.tls.RootCAs = x509.NewCertPool()
		if !c.tls.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("$%s: %s has no certificates in PEM", name, file)
		}
	}
	name, certificate := otlp("CLIENT_CERTIFICATE")
	keyName, key := otlp("CLIENT_KEY")
	if name == "" && keyName == "" {
		return nil
	}
	if name == "" || keyName == "" {
		return fmt.Errorf("$%sCLIENT_CERTIFICATE and $%sCLIENT_KEY must be set together", envOTLP, envOTLP)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("$%s, $%s: %w", name, keyName, err)
	}
	c.tls.Certificates = []tls.Certificate{pair}
	return nil
}

const parentBased = "parentbased_"

func (c *Config) readSampler() error {
	value := cmp.Or(os.Getenv(envSampler), parentBased+"always_on")
	name, based := strings.CutPrefix(value, parentBased)
	switch name {
	case "always_on":
		c.sampler = sdk.AlwaysSample()
	case "always_off":
		c.sampler = sdk.NeverSample()
	case "traceidratio":
		ratio, err := strconv.ParseFloat(cmp.Or(os.Getenv(envArgument), "1"), 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return fmt.Errorf("$%s must be a number from 0 to 1, not %q", envArgument, os.Getenv(envArgument))
		}
		c.sampler = sdk.TraceIDRatioBased(ratio)
	default:
		return fmt.Errorf("$%s must be always_on, always_off or traceidratio, or one of these after %s, not %q", envSampler, parentBased, value)
	}
	if based {
		c.sampler = sdk.ParentBased(c.sampler)
	}
	return nil
}

func (c *Config) readQueue() (err error) {
	c.queue, err = numberBetween(envQueue, defaultQueue, 1, maxQueue)
	return err
}

// readDelay checks the delay, which the library reads.
func (c *Config) readDelay() error {
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

// readResource checks the attributes, which the library reads.
func (c *Config) readResource() error {
	_, err := parsePairs(envResource)
	return err
}
