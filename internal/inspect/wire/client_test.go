package wire

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A process that was stopped accepts connections all the same.
func TestAStoppedProcessIsNotWaitedForForever(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(over)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, is := NewClient("asleep", base, nil, "").(*client)
	if !is {
		t.Fatal("another client")
	}
	c.wait = 10 * time.Millisecond
	if _, err := c.Controllers(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the process asleep: no answer within 10ms") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Controllers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: %v", err)
	}
}
