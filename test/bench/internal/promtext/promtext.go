// Package promtext reads the Prometheus text format: just enough of it to add
// up one metric by one of its labels.
//
// It knows nothing of what a metric means; the cluster room does.
package promtext

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxLine holds the longest sample line the API server writes, with room.
const maxLine = 1 << 20

// SumBy adds up the samples of a metric by the value of a label. Samples
// without that label count under the empty string.
func SumBy(r io.Reader, metric, label string) (map[string]float64, error) {
	sums := map[string]float64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), metric)
		if !ok || !endsName(rest) {
			continue
		}
		labels, value, err := parseSample(rest)
		if err != nil {
			return nil, fmt.Errorf("parse sample %q: %w", lines.Text(), err)
		}
		sums[labels[label]] += value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return sums, nil
}

// endsName tells the metric itself from another whose name begins with it.
func endsName(rest string) bool {
	return strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, " ")
}

// parseSample reads what follows a metric's name: labels in braces, if any,
// the value, and a timestamp, which it ignores.
func parseSample(s string) (labels map[string]string, value float64, err error) {
	labels = map[string]string{}
	if strings.HasPrefix(s, "{") {
		if s, err = parseLabels(s[1:], labels); err != nil {
			return nil, 0, err
		}
	}
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return nil, 0, fmt.Errorf("no value")
	}
	value, err = strconv.ParseFloat(fields[0], 64)
	return labels, value, err
}

// parseLabels fills labels and returns what follows the closing brace.
func parseLabels(s string, labels map[string]string) (string, error) {
	for {
		s = strings.TrimLeft(s, ", ")
		if rest, closed := strings.CutPrefix(s, "}"); closed {
			return rest, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return "", fmt.Errorf("label without value")
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", fmt.Errorf("label %s: %w", name, err)
		}
		if labels[name], err = strconv.Unquote(quoted); err != nil {
			return "", fmt.Errorf("label %s: %w", name, err)
		}
		s = rest[len(quoted):]
	}
}
