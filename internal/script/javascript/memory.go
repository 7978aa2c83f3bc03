package javascript

import (
	"fmt"
	"math/bits"

	"modernc.org/libc"
)

// memory is all memory of a VM. Once the VM is ready, an image of it is kept, and restoring the image
// makes the VM what it was: whatever a call did, no trace of it is left. That takes a tenth of the time that a new
// VM does.
//
// The chunks are kept from call to call: the C library returns memory to the system as soon as it is
// free, which takes longer than a small call.
type memory struct {
	// chunks are filled one after the other; those from current on have room.
	chunks  []chunk
	current int
	// free has a list of blocks for each class of sizes. The first word of such a block is the address of
	// the next one.
	free [classes]uintptr
	// loose are the large blocks that were allocated since the image was taken, each for itself. They
	// are nil before.
	loose map[uintptr]struct{}
	image image

	used     size
	limit    size // 0 for none
	reserve  size // may be used beyond the limit
	exceeded bool
}

type chunk struct {
	address      uintptr
	size, filled size
}

type image struct {
	chunks [][]byte // what filled them
	free   [classes]uintptr
	used   size
}

const (
	sizeOfChunk = 256 << 10
	// spareChunks are kept after a call, besides those of the image. Most calls need no more.
	spareChunks = 3
	// A block follows its size, and is aligned as malloc aligns.
	header = 16
	// A block of up to maxInClass is of a class.
	maxInClass = 32 << 10
	classes    = 37
)

func (a *memory) takeImage() {
	a.image = image{free: a.free, used: a.used}
	for _, c := range a.chunks {
		a.image.chunks = append(a.image.chunks, append([]byte(nil), libc.GoBytes(c.address, int(c.filled))...))
	}
	a.loose = map[uintptr]struct{}{}
}

// restore brings back what the memory had when the image was taken.
func (a *memory) restore(tls *libc.TLS) {
	a.freeLoose(tls)
	for len(a.chunks) > len(a.image.chunks)+spareChunks {
		last := len(a.chunks) - 1
		libc.Xfree(tls, a.chunks[last].address)
		a.chunks = a.chunks[:last]
	}
	for i := range a.chunks {
		a.chunks[i].filled = 0
	}
	for i, filled := range a.image.chunks {
		a.chunks[i].filled = size(copy(libc.GoBytes(a.chunks[i].address, len(filled)), filled))
	}
	a.current, a.free, a.used, a.exceeded = 0, a.image.free, a.image.used, false
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
	if bytes > maxInClass {
		return a.newLargeBlock(tls, bytes)
	}
	class, rounded := classOf(bytes)
	if block := a.free[class]; block != 0 {
		a.free[class] = read[uintptr](block)
		return block
	}
	return a.newBlockInChunk(tls, rounded)
}

// newLargeBlock makes a block that is returned to the C library when it is free, unless an image is to have it.
func (a *memory) newLargeBlock(tls *libc.TLS, bytes size) uintptr {
	if a.loose == nil {
		return a.newBlockInChunk(tls, (bytes+header-1)/header*header)
	}
	start := libc.Xmalloc(tls, header+bytes)
	if start == 0 {
		return 0
	}
	write(start, bytes)
	a.loose[start+header] = struct{}{}
	return start + header
}

func (a *memory) newBlockInChunk(tls *libc.TLS, bytes size) uintptr {
	for a.current < len(a.chunks) && a.chunks[a.current].filled+header+bytes > a.chunks[a.current].size {
		a.current++
	}
	if a.current == len(a.chunks) {
		c := chunk{size: max(sizeOfChunk, header+bytes)}
		if c.address = libc.Xmalloc(tls, c.size); c.address == 0 {
			return 0
		}
		a.chunks = append(a.chunks, c)
	}
	c := &a.chunks[a.current]
	block := c.address + uintptr(c.filled) + header
	write(block-header, bytes)
	c.filled += header + bytes
	return block
}

func (a *memory) release(tls *libc.TLS) {
	a.freeLoose(tls)
	for _, c := range a.chunks {
		libc.Xfree(tls, c.address)
	}
}

func (a *memory) freeLoose(tls *libc.TLS) {
	for block := range a.loose {
		libc.Xfree(tls, block-header)
	}
	clear(a.loose)
}

func (a *memory) deallocate(tls *libc.TLS, state, block uintptr) {
	if block == 0 {
		return
	}
	bytes := a.usable(tls, block)
	a.used -= bytes
	a.report(state)
	if bytes <= maxInClass {
		class, _ := classOf(bytes)
		write(block, a.free[class])
		a.free[class] = block
		return
	}
	if _, loose := a.loose[block]; loose {
		delete(a.loose, block)
		libc.Xfree(tls, block-header)
	}
}

func (a *memory) reallocate(tls *libc.TLS, state, block uintptr, bytes size) uintptr {
	if bytes == 0 {
		a.deallocate(tls, state, block)
		return 0
	}
	if block == 0 {
		return a.allocate(tls, state, bytes)
	}
	has := a.usable(tls, block)
	if bytes <= has && (has <= maxInClass || bytes > has/2) {
		return block
	}
	moved := a.allocate(tls, state, bytes)
	if moved == 0 {
		return 0
	}
	kept := int(min(bytes, has))
	copy(libc.GoBytes(moved, kept), libc.GoBytes(block, kept))
	a.deallocate(tls, state, block)
	return moved
}

func (*memory) usable(_ *libc.TLS, block uintptr) size { return read[size](block - header) }

// report tells the engine how much is used, for it to know when to collect garbage.
func (a *memory) report(state uintptr) { write(state+sizeOfLength, a.used) }

// classOf returns the class of a size, and the size of all its blocks. Each power of two has four.
func classOf(bytes size) (class int, rounded size) {
	const least = 6 // 64 bytes, the quarters of which are aligned
	if bytes <= 1<<least {
		return 0, 1 << least
	}
	log := bits.Len(uint(bytes)-1) - 1
	quarter := size(1) << (log - 2)
	steps := (bytes - 1<<log + quarter - 1) / quarter
	return (log-least)*4 + int(steps), 1<<log + steps*quarter
}

func (a *memory) limitText() string {
	if a.limit == 0 {
		return "memory"
	}
	return fmt.Sprintf("memory %dMiB", a.limit>>20)
}
