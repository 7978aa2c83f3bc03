package inspect

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/trace"
)

// BookOptions bound a Book. The zero value works.
type BookOptions struct {
	// Off has nothing noted.
	Off bool
	// MaxBytes is how much may be kept in all: 32 MiB if zero.
	MaxBytes int
}

// Book is what is kept of runs. It may be used by many goroutines.
type Book struct {
	options BookOptions

	mu       sync.Mutex
	revision uint64
	changed  chan struct{}
}

// NewBook makes a Book.
func NewBook(o BookOptions) *Book {
	o.MaxBytes = cmp.Or(o.MaxBytes, 32<<20)
	return &Book{options: o, revision: 1, changed: make(chan struct{})}
}

// Note keeps the account of a run.
func (b *Book) Note(run trace.Run) { b.Changed() }

// Forget drops all that is kept of a controller.
func (b *Book) Forget(controller string) { b.Changed() }

// Runs are those of an object, the latest first.
func (b *Book) Runs(ref Ref, limit int) []Run { return nil }

// Run is one of them, whole.
func (b *Book) Run(id uint64) (Run, error) {
	return Run{}, fmt.Errorf("run %d: %w", id, ErrNotFound)
}

// Stats say what is kept.
func (b *Book) Stats() BookStats { return BookStats{MaxBytes: b.options.MaxBytes} }

// Changed says that something else is to be read now.
func (b *Book) Changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision++
	close(b.changed)
	b.changed = make(chan struct{})
}

// Await waits until the revision is another one.
func (b *Book) Await(ctx context.Context, since uint64) (uint64, error) {
	for {
		b.mu.Lock()
		revision, changed := b.revision, b.changed
		b.mu.Unlock()
		if revision != since {
			return revision, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return revision, ctx.Err()
		}
	}
}

// Series is what a controller did lately; that of all of them together for "".
func (b *Book) Series(controller string) Series { return Series{} }

// Calls are how those of a controller ended.
func (b *Book) Calls(controller string) []Calls { return nil }
