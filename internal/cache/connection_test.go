package cache

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault H8: a working watch resets the delays. Several short outages within two minutes used to
// add up to delays of half a minute.
func TestBackoffResetsOnceAWatchWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &connection{options: Options{MinBackoff: time.Second, MaxBackoff: 30 * time.Second, GracePeriod: time.Hour}, report: func(error) {}}
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

// A consistent list may be refused with 429 while the API server's cache lags behind (ConsistentListFromCacheSkipTimeoutFallback
// of Kubernetes 1.37). The next attempt waits as long as the server says, but no longer than the longest delay.
func TestRetryAfterIsObeyed(t *testing.T) {
	for _, test := range []struct {
		seconds     int
		least, most time.Duration
	}{
		{0, time.Millisecond, 2 * time.Millisecond},
		{1, time.Second, time.Second + time.Millisecond},
		{600, 30 * time.Second, 30*time.Second + time.Millisecond},
	} {
		c := &connection{options: Options{MinBackoff: time.Millisecond, MaxBackoff: 30 * time.Second}}
		c.refused(apierrors.NewTooManyRequests("Too large resource version", test.seconds))
		if d := c.nextDelay(); d < test.least || d > test.most {
			t.Errorf("Retry-After of %d s: waits %s", test.seconds, d)
		}
		if d := c.nextDelay(); d > 4*time.Millisecond {
			t.Errorf("Retry-After of %d s holds for the attempt after next too: %s", test.seconds, d)
		}
	}
}

// Fault H8: a watch that stays disconnected is reported.
func TestLostConnectionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notified []error
		ctx, halt := context.WithCancel(t.Context())
		c := &connection{options: Options{MinBackoff: 1, MaxBackoff: 2, GracePeriod: 5 * time.Second}, report: func(err error) { notified = append(notified, err) }}
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
	_, events := openReadyView(t, c, Selection{Resource: configMaps})
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
	v, _ := openReadyView(t, c, Selection{Resource: configMaps})
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

// A request that is never answered, or whose body stops half-way, is reported and sent again. When
// the API server answers again, the watch works and misses nothing.
func TestSilentRequestIsReportedAndRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault  func(*server)
		repeat func(*http.Request) bool
		synced bool
	}{
		"a watch without headers after a list":   {func(s *server) { s.hang = isWatch }, isResume, true},
		"a list without headers":                 {func(s *server) { s.noStreams, s.hang = true, isList }, isList, false},
		"half a list":                            {func(s *server) { s.noStreams, s.stall = true, isList }, isList, false},
		"half a streamed list, then half a list": {func(s *server) { s.stall = isAny }, isList, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.put(testObject{key: key{"default", "old"}})
			test.fault(s)
			health := make(chan error, 1000)
			view, events := openView(s.store(Options{IdleTimeout: 100 * time.Millisecond, OnHealth: func(_ Selection, err error) { health <- err }}), Selection{Resource: configMaps})
			if test.synced {
				receive(t, view.Ready())
			}
			if err := receive(t, health); err == nil || !strings.Contains(err.Error(), "sends nothing for 100ms") {
				t.Errorf("reported %v", err)
			}
			s.request(test.repeat)
			s.request(test.repeat)
			s.put(testObject{key: key{"default", "missed"}})
			s.locked(func() { s.hang, s.stall = nil, nil })
			for receive(t, events) != "+missed" { // The old object comes before it.
			}
			for err := receive(t, health); err != nil; err = receive(t, health) {
			}
		})
	}
}

// An idle watch is resumed on another connection, without a list.
func TestIdleWatchIsReopened(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	store := s.store(Options{IdleTimeout: time.Second})
	events := make(chan Event, 100)
	view := store.Watch(Selection{Resource: configMaps}, func(e Event) { events <- e })
	receive(t, view.Ready())
	s.request(isStream)
	// The reflector lists again after a watch that was shorter than a second and brought nothing.
	s.put(testObject{key: key{"default", "warm"}})
	receive(t, events)
	// The connection stays open and delivers nothing.
	s.locked(func() { clear(s.watchers) })
	s.put(testObject{key: key{"default", "missed"}})
	if e := receive(t, events); e.New == nil || e.New.Name() != "missed" {
		t.Errorf("got %v", e)
	}
	for len(s.opened) > 0 {
		if r := receive(t, s.opened); !isResume(r) {
			t.Errorf("listed again: %s", r.URL)
		}
	}
}

// A watch with regular bookmarks stays open. Rounds in which this machine was too slow to send
// them do not count.
func TestActiveWatchStaysOpen(t *testing.T) {
	t.Parallel()
	const silence = time.Second
	s := newServer(t)
	store := s.store(Options{IdleTimeout: silence})
	view := store.Watch(Selection{Resource: configMaps}, nil)
	receive(t, view.Ready())
	s.request(isStream)
	fast := true // Whether the round before was fast; what a slow one causes may come in the next.
	for range 20 {
		before := fast
		fast = s.sendBookmarks(3*silence) < silence/2
		if fast && before {
			if n := len(s.opened); n > 0 {
				t.Errorf("%d more requests", n)
			}
			return
		}
		for len(s.opened) > 0 {
			<-s.opened
		}
	}
	t.Error("this machine is too slow to say something twice a second")
}

// sendBookmarks sends bookmarks for a period and returns the longest pause.
func (s *server) sendBookmarks(period time.Duration) (longest time.Duration) {
	bookmark := time.NewTicker(20 * time.Millisecond)
	defer bookmark.Stop()
	last := time.Now()
	for end := last.Add(period); last.Before(end); {
		<-bookmark.C
		s.send(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1"}}}` + "\n")
		longest, last = max(longest, time.Since(last)), time.Now()
	}
	return longest
}
