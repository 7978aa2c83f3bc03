// Package stats holds the two numbers a bench needs of many: the median and
// the percentile.
package stats

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Percentile returns the smallest value that at least p percent of the values
// do not exceed (nearest rank), and zero for no values. It leaves values as
// they are.
func Percentile[T cmp.Ordered](values []T, p float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the middle of the values, the mean of the two middle ones of
// an even number, and zero for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Per divides, and says zero of zero.
func Per[N int | int64 | float64](total, count N) float64 {
	if count == 0 {
		return 0
	}
	return float64(total) / float64(count)
}

// Millis is a duration in milliseconds, with its fraction.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
