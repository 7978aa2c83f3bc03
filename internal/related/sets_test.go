package related

import (
	"cmp"
	"math/rand/v2"
	"testing"
)

func TestIndexedSet(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for range 200 {
		var c indexedSet[int]
		want := map[int]bool{}
		for range r.IntN(200) {
			one := r.IntN(40)
			if r.IntN(3) == 0 {
				c.remove(one)
				delete(want, one)
			} else {
				c.add(one)
				want[one] = true
			}
			if c.empty() != (len(want) == 0) {
				t.Fatalf("empty with %d", len(want))
			}
		}
		got := map[int]bool{}
		for _, one := range c.list {
			got[one] = true
		}
		if len(got) != len(c.list) || len(got) != len(want) {
			t.Fatalf("%v, want %v", c.list, want)
		}
		for one := range want {
			if !got[one] {
				t.Fatalf("%v, want %v", c.list, want)
			}
		}
	}
}

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
