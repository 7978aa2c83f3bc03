package plan

import "github.com/setpoint-dev/setpoint/internal/object"

// PairItems returns for each item of a list the desired item that is the same one by its key, or nil.
// Lists whose items have no key in common are paired by index.
func PairItems(have, want []any) []any {
	pairs := make([]any, len(have))
	for _, key := range object.ChildKeys {
		observed, fits := key.Index(have)
		desired, fitsToo := key.Index(want)
		if !fits || !fitsToo {
			continue
		}
		for i, id := range observed.Order {
			pairs[i] = desired.ByID[id]
		}
		return pairs
	}
	copy(pairs, want)
	return pairs
}
