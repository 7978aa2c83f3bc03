package flags

import (
	"flag"

	"github.com/setpoint-dev/setpoint/internal/trace"
)

// TraceFlags are the flags of traces, which `setpoint dev` has too. What else there is to say, the environment
// variables of OpenTelemetry say.
type TraceFlags struct {
	annotate bool
	config   *trace.Config
}

// Register registers the flags.
func (f *TraceFlags) Register(set *flag.FlagSet) {
	set.BoolVar(&f.annotate, "trace-annotations", false, "write the trace to the annotation "+trace.Annotation+
		" of children when they are created, for controllers in other processes; traces are on if $OTEL_EXPORTER_OTLP_ENDPOINT is set")
}

// Check reads and validates the environment.
func (f *TraceFlags) Check() (err error) {
	if f.config, err = trace.FromEnvironment(); f.config != nil {
		f.config.Annotate = f.annotate
	}
	return err
}

// Options returns where spans go, as Check has read; nil if traces are off.
func (f *TraceFlags) Options() *trace.Config { return f.config }
