package rollout

import (
	"hash/fnv"
	"slices"
)

// End is the position at which all parents have moved.
const End int64 = 1 << 32

// Hash returns the place of a parent among all parents, less than End. It is the same in every process and in
// every rollout.
func Hash(uid string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // Write never returns an error.
	return int64(h.Sum32())
}

// Moved reports whether a parent has moved at a position.
func Moved(uid string, position int64) bool { return position >= End || Hash(uid) < position }

// after returns the position at which a number of parents have moved. Hashes are sorted.
func after(hashes []int64, moved int) int64 {
	switch {
	case moved <= 0:
		return 0
	case moved >= len(hashes):
		return hashes[len(hashes)-1] + 1
	}
	return hashes[moved-1] + 1
}

// movedAt returns how many of the parents have moved at a position.
func movedAt(hashes []int64, position int64) int {
	n, _ := slices.BinarySearch(hashes, position)
	return n
}
