package javascript

import (
	"modernc.org/libc"
	"modernc.org/libquickjs"
)

// memory counts what a VM allocates. The engine has a limit of its own, but when no memory is left
// for an exception it throws null, as an author's code can, too.
type memory struct {
	used, limit size
	reserve     size // may be used beyond the limit
	exceeded    bool
}

func (a *memory) allows(more size) bool {
	if a.limit > 0 && a.used+more > a.limit+a.reserve {
		a.exceeded = true
		return false
	}
	return true
}

func (a *memory) allocate(tls *libc.TLS, _ uintptr, bytes size) uintptr {
	if !a.allows(bytes) {
		return 0
	}
	block := libc.Xmalloc(tls, bytes)
	if block == 0 {
		a.exceeded = true
		return 0
	}
	a.used += usable(tls, block)
	return block
}

func (a *memory) free(tls *libc.TLS, _, block uintptr) {
	if block != 0 {
		a.used -= usable(tls, block)
		libc.Xfree(tls, block)
	}
}

func (a *memory) reallocate(tls *libc.TLS, _, block uintptr, bytes size) uintptr {
	if block == 0 && bytes > 0 {
		return a.allocate(tls, 0, bytes)
	}
	if bytes == 0 {
		a.free(tls, 0, block)
		return 0
	}
	before := usable(tls, block)
	if bytes > before && !a.allows(bytes-before) {
		return 0
	}
	moved := libc.Xrealloc(tls, block, bytes)
	if moved == 0 {
		a.exceeded = true
		return 0
	}
	a.used += usable(tls, moved) - before
	return moved
}

func usable(tls *libc.TLS, block uintptr) size { return libc.Xmalloc_usable_size(tls, block) }

// newRuntime makes a runtime of the engine that allocates here.
func (a *memory) newRuntime(m *vm) uintptr {
	write(m.shared.allocator(), libquickjs.TJSMallocFunctions{
		Fjs_malloc:             callback(m, a.allocate),
		Fjs_free:               callback(m, a.free),
		Fjs_realloc:            callback(m, a.reallocate),
		Fjs_malloc_usable_size: callback(m, usable),
	})
	return libquickjs.XJS_NewRuntime2(m.tls, m.shared.allocator(), 0)
}
