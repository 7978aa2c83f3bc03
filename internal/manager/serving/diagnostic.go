package serving

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Diagnostic returns one of inspect.Diagnostics of this process.
func Diagnostic(name string, metrics prometheus.Gatherer) ([]byte, error) {
	var out bytes.Buffer
	switch name {
	case inspect.DiagnosticCommand:
		out.WriteString(strings.Join(os.Args, "\n") + "\n")
		return out.Bytes(), nil
	case inspect.DiagnosticMetrics: // As /metrics has them.
		families, err := metrics.Gather()
		if err != nil {
			return nil, fmt.Errorf("gather metrics: %w", err)
		}
		for _, family := range families {
			if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
				return nil, fmt.Errorf("write the metric %s: %w", family.GetName(), err)
			}
		}
		return out.Bytes(), nil
	case inspect.DiagnosticGoroutines:
		err := pprof.Lookup("goroutine").WriteTo(&out, 1)
		return out.Bytes(), err
	}
	return nil, fmt.Errorf("the diagnostic %q does not exist: use one of %s", name, strings.Join(inspect.Diagnostics, ", "))
}
