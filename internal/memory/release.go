package memory

import "runtime/debug"

// Release returns memory that is not in use to the system, for a process that has started: garbage, and the pages
// of its program that only the start needs.
func Release() {
	debug.FreeOSMemory()
	releaseProgram()
}
