package stats

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	tests := map[string]struct {
		values []int
		p      float64
		want   int
	}{
		"none":              {nil, 50, 0},
		"one":               {[]int{7}, 99, 7},
		"middle of odd":     {[]int{3, 1, 2}, 50, 2},
		"lowest":            {[]int{3, 1, 2}, 0, 1},
		"highest":           {[]int{3, 1, 2}, 100, 3},
		"99th of a hundred": {hundred, 99, 99},
		"50th of a hundred": {hundred, 50, 50},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Percentile(test.values, test.p); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
	if hundred[0] != 100 {
		t.Error("the values were sorted in place")
	}
}

func TestMedian(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   float64
	}{
		"none": {nil, 0},
		"one":  {[]float64{4}, 4},
		"odd":  {[]float64{9, 1, 4}, 4},
		"even": {[]float64{9, 1, 4, 6}, 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Median(test.values); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestPerAndMillis(t *testing.T) {
	if got := Per(3, 2); got != 1.5 {
		t.Errorf("3 per 2: got %v", got)
	}
	if got := Per(3.0, 0); got != 0 {
		t.Errorf("3 per none: got %v", got)
	}
	if got := Millis(1500 * time.Microsecond); got != 1.5 {
		t.Errorf("1500 µs: got %v ms", got)
	}
}
