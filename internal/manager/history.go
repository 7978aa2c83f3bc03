package manager

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ParseHistory parses the size of the history, such as 32Mi; 0 disables it.
func ParseHistory(text string) (History, error) {
	bytes, err := ParseBytes(text)
	return History{Off: bytes == 0, MaxBytes: bytes}, err
}

// ParseBytes parses a quantity of bytes, such as 32Mi.
func ParseBytes(text string) (int, error) {
	quantity, err := resource.ParseQuantity(text)
	bytes := quantity.Value()
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be a quantity of bytes such as 32Mi, not %q", text)
	case bytes < 0, bytes > math.MaxInt32:
		return 0, fmt.Errorf("must be at least 0 and less than 2Gi, not %s", text)
	}
	return int(bytes), nil
}
