// Package heaptest measures what code takes of the heap, for tests of limits.
//
// Tests import it, and nothing else does.
package heaptest

import "runtime"

// Allocated is how many bytes are allocated while do runs, by all goroutines, whether or
// not they are free again at its end: at least what the heap grows by, and the same
// however busy the machine is and whenever garbage is collected.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Held is how many bytes the heap grows by with what do builds, which the caller keeps.
func Held(do func()) uint64 {
	before := live()
	do()
	return max(live(), before) - before
}

// live returns the memory of the objects that are in use.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
