package server

import (
	"context"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// budget limits one program: concurrent reviews, and a part of the memory.
type budget struct {
	// turns has one entry for each review in the hook.
	turns  chan struct{}
	memory *semaphore.Weighted
}

// reservation is the memory of one review, from its first byte to the response: of its program, and of all.
type reservation struct {
	program, all *semaphore.Weighted
	bytes        int64
}

func (s *Server) reserve(of *budget) *reservation {
	return &reservation{program: of.memory, all: s.memory}
}

// grow reserves more bytes, as soon as they are available.
func (m *reservation) grow(ctx context.Context, bytes int64) error {
	err := m.program.Acquire(ctx, bytes)
	if err == nil {
		if err = m.all.Acquire(ctx, bytes); err != nil {
			m.program.Release(bytes)
		}
	}
	if err != nil {
		return newHTTPError(http.StatusServiceUnavailable, "the memory for reviews is exhausted: %w", context.Cause(ctx))
	}
	m.bytes += bytes
	return nil
}

func (m *reservation) release() {
	m.program.Release(m.bytes)
	m.all.Release(m.bytes)
}
