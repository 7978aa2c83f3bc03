package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Fault S1: the address of a process that is gone may belong to any server, such as one
// that switches protocols and keeps the connection.
func TestInvalidResponse(t *testing.T) {
	source := connect(t, "another", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}), Token(""))
	_, err := source.Controllers(t.Context())
	if err == nil || err.Error() != "read the process another: 101 Switching Protocols in place of a response" {
		t.Errorf("%v", err)
	}
}

// A process that was stopped accepts connections all the same.
func TestStoppedProcessTimesOut(t *testing.T) {
	over := make(chan struct{})
	c, is := connect(t, "asleep", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}), Token("")).(*client)
	defer close(over)
	if !is {
		t.Fatal("another client")
	}
	c.wait = 10 * time.Millisecond
	if _, err := c.Controllers(t.Context()); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "the process asleep: no response within 10ms") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Controllers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: %v", err)
	}
}
