package javascript

import (
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libquickjs"
)

// This file has all that is unsafe: memory that Go and C share. What C reads or writes by address is
// in memory of C.

type size = libquickjs.Tsize_t

// cString is text in memory of C, which ends with a zero byte.
type cString struct {
	address uintptr
	length  size
}

func newCString(text string) (cString, error) {
	p, err := libc.CString(text)
	if err != nil {
		return cString{}, err
	}
	return cString{address: p, length: size(len(text))}, nil
}

func (c cString) free(tls *libc.TLS) { libc.Xfree(tls, c.address) }

// buffer is memory of C for text, which is kept from call to call.
type buffer struct {
	address uintptr
	size    int
}

// maxKept is how large a buffer may be that is kept.
const maxKept = 1 << 20

// hold returns the text in memory of C, until the next call.
func (b *buffer) hold(tls *libc.TLS, text []byte) ([]byte, error) {
	if len(text) > b.size || b.address == 0 {
		b.free(tls)
		const least = 32 << 10
		b.size = max(least, len(text)+len(text)/2)
		if b.address = libc.Xmalloc(tls, size(b.size)); b.address == 0 {
			return nil, errOutOfMemory
		}
	}
	held := libc.GoBytes(b.address, len(text))
	copy(held, text)
	return held, nil
}

func (b *buffer) free(tls *libc.TLS) {
	libc.Xfree(tls, b.address)
	*b = buffer{}
}

// addressOf is the address of text in memory of C.
func addressOf(text []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(text))) //nolint:gosec // as the comment says
}

// keepPages makes one block of each class of sizes of the C library's allocator, which then keeps a page for each.
// Without them, it would return the page of an only block to the system as soon as the block is free:
// most calls of functions have an array for their arguments, and each would get a new page.
func keepPages(tls *libc.TLS) (blocks []uintptr) {
	const least, largest = 16, 16 << 10
	for bytes := size(least); bytes <= largest; bytes *= 2 {
		blocks = append(blocks, libc.Xmalloc(tls, bytes))
	}
	return blocks
}

// callback is what C calls a Go function by. It is valid as long as the function is kept.
func callback[F any](kept *[]any, f F) uintptr {
	*kept = append(*kept, f)
	return *(*uintptr)(unsafe.Pointer(&f)) //nolint:gosec // a function is a pointer to its code, as C functions of the engine are
}

// pointer is the address of the object that a value is.
func pointer(v value) uintptr { return payload[uintptr](v) }

// payload is what a value holds: a number, or whether it is true.
func payload[T any](v value) T {
	return *(*T)(unsafe.Pointer(&v)) //nolint:gosec // the payload is the first word of a value
}

// newValue makes a number, or true or false.
func newValue[T int32 | float64](tag int64, holds T) value {
	v := value{Ftag: tag}
	*(*T)(unsafe.Pointer(&v)) = holds //nolint:gosec // the payload is the first word of a value
	return v
}

// useUTC sets the time zone of the C library, which has an environment of its own.
func useUTC(tls *libc.TLS) error {
	name, err := newCString("TZ")
	if err != nil {
		return err
	}
	defer name.free(tls)
	zone, err := newCString("UTC0")
	if err != nil {
		return err
	}
	defer zone.free(tls)
	if libc.Xsetenv(tls, name.address, zone.address, 1) != 0 {
		return errOutOfMemory
	}
	return nil
}

// shared is memory of C for what functions of C take or return by address.
type shared uintptr

const (
	sizeOfValue     = unsafe.Sizeof(value{})
	sizeOfLength    = unsafe.Sizeof(size(0))
	sizeOfAllocator = unsafe.Sizeof(libquickjs.TJSMallocFunctions{})
	sizeOfProperty  = unsafe.Sizeof(libquickjs.TJSPropertyEnum{})
)

// nameOfPrelude stands for the prelude in stacks. No file of an author can have it.
const nameOfPrelude = "<setpoint>"

// newShared returns 0 if no memory is left.
func newShared(tls *libc.TLS) shared {
	s := shared(libc.Xcalloc(tls, 1, size(sizeOfValue+sizeOfLength+sizeOfAllocator)+size(len(nameOfPrelude))+1))
	if s != 0 {
		copy(libc.GoBytes(s.name(), len(nameOfPrelude)), nameOfPrelude)
	}
	return s
}

func (s shared) free(tls *libc.TLS) { libc.Xfree(tls, uintptr(s)) }

func (s shared) argument() uintptr  { return uintptr(s) }
func (s shared) length() uintptr    { return uintptr(s) + sizeOfValue }
func (s shared) allocator() uintptr { return s.length() + sizeOfLength }
func (s shared) name() uintptr      { return s.allocator() + sizeOfAllocator }

func read[T any](address uintptr) (v T) {
	copy(bytesOf(&v), libc.GoBytes(address, int(unsafe.Sizeof(v))))
	return v
}

func write[T any](address uintptr, v T) {
	copy(libc.GoBytes(address, int(unsafe.Sizeof(v))), bytesOf(&v))
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) //nolint:gosec // all of the variable and no more
}
