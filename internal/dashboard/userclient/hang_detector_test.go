package userclient_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var pods = object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

// newHungServer returns an API server that does not respond while it hangs, and is slow with
// tables.
func newHungServer(t *testing.T) (hangs *atomic.Bool, client *userclient.Client) {
	hangs = &atomic.Bool{}
	done := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case hangs.Load():
			select {
			case <-done:
			case <-r.Context().Done():
			}
		case r.URL.Path == "/version":
			_, _ = w.Write([]byte("{}"))
		default:
			select {
			case <-time.After(3 * time.Second):
			case <-r.Context().Done():
			}
			_, _ = w.Write([]byte(`{"metadata":{"name":"a"}}`))
		}
	}))
	t.Cleanup(func() { close(done); api.Close() })
	client = must.Get(connect(t, &rest.Config{Host: api.URL}).Client(userclient.User{OwnCredentials: true})).In(t)
	return hangs, client
}

// Fault U8: each request to a hung API server took ten seconds. Requests fail early if a ping
// fails too.
func TestHungServerTimesOut(t *testing.T) {
	hangs, client := newHungServer(t)
	hangs.Store(true)
	began := time.Now()
	for range 5 {
		if _, err := client.Get(t.Context(), pods, "shop", "a"); !errors.Is(err, userclient.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	// It takes four, and more on a slow machine.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("five requests took %s", took)
	}
	hangs.Store(false)
	// The hang is remembered for a while.
	for err := errors.New("not yet"); err != nil && t.Context().Err() == nil; {
		_, err = client.Get(t.Context(), pods, "shop", "a")
	}
}

// A slow response succeeds while others arrive.
func TestSlowServerSucceeds(t *testing.T) {
	_, client := newHungServer(t)
	must.Get(client.Get(t.Context(), pods, "shop", "a")).In(t)
}
