package cache

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault H8: a working watch resets the delays. Several short outages within two minutes used to
// add up to delays of half a minute.
func TestBackoffResetsOnceAWatchWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connection{minDelay: time.Second, maxDelay: 30 * time.Second, gracePeriod: time.Hour, report: func(error) {}}
		defer c.close()
		between := func(least, most time.Duration) {
			t.Helper()
			if d := c.nextDelay(); d < least || d > most {
				t.Errorf("waits %s, want %s to %s", d, least, most)
			}
		}
		for range 3 {
			between(time.Second, 2*time.Second)
			between(2*time.Second, 4*time.Second)
			between(4*time.Second, 8*time.Second)
			c.connected()
			<-time.After(5 * time.Second)
			c.disconnected(t.Context())
		}
		for range 9 {
			c.nextDelay()
		}
		between(15*time.Second, 30*time.Second)
		// A watch that ends at once did not work.
		c.connected()
		<-time.After(time.Second)
		c.disconnected(t.Context())
		between(15*time.Second, 30*time.Second)
	})
}

// Fault H8: a watch that stays disconnected is reported.
func TestLostConnectionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notified []error
		ctx, halt := context.WithCancel(t.Context())
		c := &connection{minDelay: 1, maxDelay: 2, gracePeriod: 5 * time.Second, report: func(err error) { notified = append(notified, err) }}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		c.connected()
		c.disconnected(ctx)
		wait(4 * time.Second)
		c.connected()
		wait(time.Minute)
		if len(notified) > 0 {
			t.Fatalf("reported %v too early", notified)
		}
		c.disconnected(ctx)
		wait(6 * time.Second)
		if len(notified) != 1 || !errors.Is(notified[0], errLost) {
			t.Fatalf("got %v", notified)
		}
		c.connected()
		c.disconnected(ctx)
		halt()
		wait(time.Minute)
		if len(notified) != 1 {
			t.Errorf("reported %v after the end", notified)
		}
	})
}

// Fault H8: repeated outages do not slow the watch down. The longest delay is that of production.
func TestRepeatedOutagesDoNotGrowBackoff(t *testing.T) {
	t.Parallel()
	api := newServer(t)
	api.put(namedObject("a"))
	c := New(api.client(), Options{MinBackoff: time.Millisecond})
	t.Cleanup(c.Close)
	v, events := openView(c, Selection{Resource: configMaps})
	receive(t, v.Ready())
	expectEvents(t, events, "+a")
	// If delays grew, each outage would last about sixteen times as long as the one before, up to some times the
	// longest delay of 15 to 30 s.
	var outage time.Duration
	for range 20 {
		// A watch works once it has lasted longer than the last delay, which the outage has waited for.
		api.sendBookmarks(100*time.Millisecond + outage)
		began := time.Now()
		refused := make(chan struct{}, 1000)
		api.locked(func() {
			api.reject = func(*http.Request) *metav1.Status {
				refused <- struct{}{}
				return &metav1.Status{Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "unavailable"}
			}
			api.broadcast(breakConnection)
			api.watchers = map[chan string]bool{}
		})
		for range 4 {
			receive(t, refused)
		}
		api.locked(func() { api.reject = nil })
		api.put(namedObject("a"))
		expectEvents(t, events, "~a")
		if outage = time.Since(began); outage > 30*time.Second {
			t.Fatalf("an outage lasted %s", outage)
		}
	}
}

// Fault H8: a watch that is neither connected nor refused is unhealthy.
func TestLostConnectionIsUnhealthy(t *testing.T) {
	t.Parallel()
	api := newServer(t)
	api.put(namedObject("a"))
	notified := make(chan error, 100)
	c := New(api.client(), Options{MinBackoff: time.Hour, MaxBackoff: 4 * time.Hour, GracePeriod: time.Millisecond, OnHealth: func(_ Selection, err error) { notified <- err }})
	t.Cleanup(c.Close)
	v := c.Watch(Selection{Resource: configMaps}, nil)
	receive(t, v.Ready())
	api.request(isStream)
	// The watch ends with an error, and the next list is due in an hour.
	api.locked(func() {
		api.broadcast(`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}` + "\n")
		api.watchers = map[chan string]bool{}
	})
	if err := receive(t, notified); err == nil || !strings.Contains(err.Error(), "watch configmaps.v1: the connection to the API server was lost") {
		t.Errorf("got %v", err)
	}
	if v.Err() == nil {
		t.Error("no error")
	}
}
