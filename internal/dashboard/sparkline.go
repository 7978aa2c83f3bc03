package dashboard

import (
	"fmt"
	"html/template"
	"strings"
)

// The viewBox of a sparkline.
const (
	plotWidth  = 120
	plotHeight = 28
)

// sparkline renders a small plot with an accessible label. It uses presentation attributes,
// since the policy forbids inline styles.
func sparkline(label, class string, values []float64) template.HTML {
	escape := template.HTMLEscapeString
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="spark spark-%s" role="img" aria-label="%s" viewBox="0 0 %d %d" preserveAspectRatio="none">`,
		escape(class), escape(label), plotWidth, plotHeight)
	if line := points(values); line != "" {
		fmt.Fprintf(&b, `<polygon class="spark-area" points="0,%[1]d %[2]s %[3]d,%[1]d"/><polyline class="spark-line" points="%[2]s"/>`,
			plotHeight, line, plotWidth)
	}
	b.WriteString("</svg>")
	//nolint:gosec // The label and the class are escaped, and the rest are numbers.
	return template.HTML(b.String())
}

// points returns the points of a line through the values.
func points(values []float64) string {
	var most float64
	for _, value := range values {
		most = max(most, value)
	}
	if len(values) < 2 {
		return ""
	}
	var b strings.Builder
	step := float64(plotWidth) / float64(len(values)-1)
	for i, value := range values {
		height := 0.0
		if most > 0 {
			height = value / most
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", float64(i)*step, float64(plotHeight-1)-height*float64(plotHeight-3))
	}
	return strings.TrimSpace(b.String())
}
