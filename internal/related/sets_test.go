package related

import (
	"cmp"
	"testing"
)

func TestNamesAreInTheOrderOfTheWire(t *testing.T) {
	parts := []string{"a", "a-", "a-b", "a0", "a.b", "ab", "b", "team", "team-1"}
	for _, spaceA := range parts {
		for _, spaceB := range parts {
			for _, nameA := range parts {
				for _, nameB := range parts {
					want := cmp.Compare(spaceA+"/"+nameA, spaceB+"/"+nameB)
					if got := compareNames(spaceA, nameA, spaceB, nameB); got != want {
						t.Errorf("%s/%s and %s/%s: %d, want %d", spaceA, nameA, spaceB, nameB, got, want)
					}
				}
			}
		}
	}
}
