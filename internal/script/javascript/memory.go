package javascript

import (
	"modernc.org/libc"
	"modernc.org/libquickjs"
)

// memory is all memory of a VM. Once the VM is ready, an image of it is kept, and restoring the image
// makes the VM what it was: whatever a call did, no trace of it is left. That takes a tenth of the time that a new
// VM does.
type memory struct {
	// chunks have what was allocated before the image was taken.
	chunks []chunk
	// loose are the blocks that were allocated since, by address. They are nil before.
	loose map[uintptr]struct{}

	used, usedByImage size
	limit             size // 0 for none
	reserve           size // may be used beyond the limit
	exceeded          bool
}

type chunk struct {
	address      uintptr
	size, filled size
	image        []byte
}

const (
	sizeOfChunk = 256 << 10
	// A block in a chunk follows its size, and is aligned as malloc aligns.
	header = 16
)

// takeImage keeps what the memory has now.
func (a *memory) takeImage() {
	for i, c := range a.chunks {
		a.chunks[i].image = append([]byte(nil), libc.GoBytes(c.address, int(c.filled))...)
	}
	a.loose, a.usedByImage = map[uintptr]struct{}{}, a.used
}

// restore brings back what the memory had when the image was taken.
func (a *memory) restore(tls *libc.TLS) {
	for block := range a.loose {
		libc.Xfree(tls, block)
	}
	clear(a.loose)
	for _, c := range a.chunks {
		copy(libc.GoBytes(c.address, int(c.filled)), c.image)
	}
	a.used, a.exceeded = a.usedByImage, false
}

func (a *memory) release(tls *libc.TLS) {
	for block := range a.loose {
		libc.Xfree(tls, block)
	}
	for _, c := range a.chunks {
		libc.Xfree(tls, c.address)
	}
}

func (a *memory) allocate(tls *libc.TLS, state uintptr, bytes size) uintptr {
	block := a.newBlock(tls, bytes)
	if block == 0 {
		a.exceeded = true
		return 0
	}
	a.used += a.usable(tls, block)
	a.report(state)
	return block
}

func (a *memory) newBlock(tls *libc.TLS, bytes size) uintptr {
	if a.limit > 0 && a.used+bytes > a.limit+a.reserve {
		return 0
	}
	if a.loose == nil {
		return a.newBlockInChunk(tls, bytes)
	}
	block := libc.Xmalloc(tls, bytes)
	if block != 0 {
		a.loose[block] = struct{}{}
	}
	return block
}

func (a *memory) newBlockInChunk(tls *libc.TLS, bytes size) uintptr {
	bytes = (bytes + header - 1) / header * header
	last := len(a.chunks) - 1
	if last < 0 || a.chunks[last].filled+header+bytes > a.chunks[last].size {
		c := chunk{size: max(sizeOfChunk, header+bytes)}
		if c.address = libc.Xmalloc(tls, c.size); c.address == 0 {
			return 0
		}
		a.chunks = append(a.chunks, c)
		last++
	}
	c := &a.chunks[last]
	block := c.address + uintptr(c.filled) + header
	write(block-header, bytes)
	c.filled += header + bytes
	return block
}

func (a *memory) free(tls *libc.TLS, state, block uintptr) {
	if block == 0 {
		return
	}
	a.used -= a.usable(tls, block)
	a.report(state)
	if _, loose := a.loose[block]; loose {
		delete(a.loose, block)
		libc.Xfree(tls, block)
	}
}

func (a *memory) reallocate(tls *libc.TLS, state, block uintptr, bytes size) uintptr {
	if bytes == 0 {
		a.free(tls, state, block)
		return 0
	}
	moved := a.allocate(tls, state, bytes)
	if moved == 0 || block == 0 {
		return moved
	}
	kept := int(min(bytes, a.usable(tls, block)))
	copy(libc.GoBytes(moved, kept), libc.GoBytes(block, kept))
	a.free(tls, state, block)
	return moved
}

func (a *memory) usable(tls *libc.TLS, block uintptr) size {
	if _, loose := a.loose[block]; loose {
		return libc.Xmalloc_usable_size(tls, block)
	}
	return read[size](block - header)
}

// report tells the engine how much is used, for it to know when to collect garbage.
func (a *memory) report(state uintptr) { write(state+sizeOfLength, a.used) }

// newRuntime makes a runtime of the engine that allocates here.
func (a *memory) newRuntime(m *vm) uintptr {
	write(m.shared.allocator(), libquickjs.TJSMallocFunctions{
		Fjs_malloc:             callback(m, a.allocate),
		Fjs_free:               callback(m, a.free),
		Fjs_realloc:            callback(m, a.reallocate),
		Fjs_malloc_usable_size: callback(m, a.usable),
	})
	return libquickjs.XJS_NewRuntime2(m.tls, m.shared.allocator(), 0)
}
