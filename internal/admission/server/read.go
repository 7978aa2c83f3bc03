package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	// firstBody is the room for a review whose size is not announced, or is said to be
	// larger: room for more is made as it arrives.
	firstBody = 64 << 10
	// maxValues is how many JSON values a review may have. Objects as large as etcd
	// stores them have less.
	maxValues = 1_000_000
)

// read reads a review. It uses no turn of the program, and no more memory than has
// arrived.
func (s *Server) read(ctx context.Context, w http.ResponseWriter, r *http.Request, h *reservation) ([]byte, error) {
	if r.ContentLength > s.options.MaxBody {
		return nil, s.tooLarge()
	}
	connection := http.NewResponseController(w)
	// Where there are no deadlines there is no connection that could be slow.
	_ = connection.SetReadDeadline(time.Now().Add(s.options.BodyTimeout))
	ctx, cancel := context.WithTimeout(ctx, s.options.BodyTimeout)
	defer cancel()
	body, err := s.readBody(ctx, r, h)
	if err != nil {
		return nil, err
	}
	_ = connection.SetReadDeadline(time.Time{}) // Else the connection ends while the hook is at work.
	h.finishRead()
	if err := object.LimitValues(body, maxValues); err != nil {
		return nil, malformed(err)
	}
	return body, nil
}

func (s *Server) readBody(ctx context.Context, r *http.Request, h *reservation) ([]byte, error) {
	room := int64(firstBody)
	if r.ContentLength >= 0 {
		room = min(r.ContentLength, room) + 1
	}
	if err := h.grow(ctx, room); err != nil {
		return nil, err
	}
	body := make([]byte, 0, room)
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > s.options.MaxBody:
			return nil, s.tooLarge()
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, newHTTPError(http.StatusBadRequest, "read the review after %d bytes: %w", len(body), err)
		case len(body) < cap(body):
			continue
		}
		grown := min(2*int64(len(body)), s.options.MaxBody+1)
		if err := h.grow(ctx, grown-int64(len(body))); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, grown), body...)
	}
}

func (s *Server) tooLarge() error {
	return newHTTPError(http.StatusRequestEntityTooLarge, "the review exceeds %d bytes", s.options.MaxBody)
}

func malformed(err error) error {
	return newHTTPError(http.StatusBadRequest, "malformed %s: %w", reviewKind, err)
}

// interruptRead returns a function that ends a pending read.
func interruptRead(w http.ResponseWriter) func() {
	connection := http.NewResponseController(w)
	return func() { _ = connection.SetReadDeadline(time.Unix(1, 0)) }
}

// enter waits for a turn of the program.
func (b *budget) enter(ctx context.Context) error {
	select {
	case b.turns <- struct{}{}:
		return nil
	default:
	}
	select {
	case b.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return newHTTPError(http.StatusServiceUnavailable, "all %d concurrent reviews are busy: %w", cap(b.turns), context.Cause(ctx))
	}
}

func (b *budget) leave() { <-b.turns }
