package promtext

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"maps"
	"strings"
	"testing"
)

func TestSumBy(t *testing.T) {
	tests := map[string]struct {
		text string
		want map[string]float64
	}{
		"nothing": {"", map[string]float64{}},
		"adds up over the other labels": {
			"# TYPE hits counter\nhits{flow=\"a\",level=\"x\"} 2\nhits{flow=\"a\",level=\"y\"} 3\nhits{flow=\"b\",level=\"x\"} 1e3\n",
			map[string]float64{"a": 5, "b": 1000},
		},
		"another metric whose name begins the same": {
			"hits_total{flow=\"a\"} 7\nhits{flow=\"a\"} 1\n",
			map[string]float64{"a": 1},
		},
		"no labels, with a timestamp": {"hits 4 1700000000\n", map[string]float64{"": 4}},
		"braces, commas and escapes in a value": {
			`hits{odd="}, \"q\" \\",flow="a"} 6` + "\n",
			map[string]float64{"a": 6},
		},
		"trailing comma": {`hits{flow="a",} 1` + "\n", map[string]float64{"a": 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := must.Get(SumBy(strings.NewReader(test.text), "hits", "flow")).In(t)
			if !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestSumByRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no value":            `hits{flow="a"}`,
		"not a number":        `hits{flow="a"} many`,
		"unclosed label":      `hits{flow="a 1`,
		"label without value": `hits{flow} 1`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := SumBy(strings.NewReader(text), "hits", "flow"); err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}
