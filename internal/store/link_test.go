package store

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

// Fault H8: delays grow while nothing works, and a watch that worked ends that: several
// short outages within two minutes used to add up to delays of half a minute.
func TestLinkForgetsFailuresOnceAWatchWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{first: time.Second, longest: 30 * time.Second, patience: time.Hour, report: func(error) {}}
		defer l.close()
		between := func(least, most time.Duration) {
			t.Helper()
			if d := l.next(); d < least || d > most {
				t.Errorf("waits %s, want %s to %s", d, least, most)
			}
		}
		for range 3 {
			between(time.Second, 2*time.Second)
			between(2*time.Second, 4*time.Second)
			between(4*time.Second, 8*time.Second)
			l.up()
			<-time.After(5 * time.Second)
			l.down(t.Context())
		}
		for range 9 {
			l.next()
		}
		between(15*time.Second, 30*time.Second)
		// One that ends at once has not worked.
		l.up()
		<-time.After(time.Second)
		l.down(t.Context())
		between(15*time.Second, 30*time.Second)
	})
}

// Fault H8: a watch that stays without a connection is reported, whatever it waits for.
func TestLinkReportsALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		ctx, halt := context.WithCancel(t.Context())
		l := &link{first: 1, longest: 2, patience: 5 * time.Second, report: func(err error) { told = append(told, err) }}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		l.up()
		l.down(ctx)
		wait(4 * time.Second)
		l.up()
		wait(time.Minute)
		if len(told) > 0 {
			t.Fatalf("told %v of a moment", told)
		}
		l.down(ctx)
		wait(6 * time.Second)
		if len(told) != 1 || !errors.Is(told[0], errLost) {
			t.Fatalf("told %v", told)
		}
		l.up()
		l.down(ctx)
		halt()
		wait(time.Minute)
		if len(told) != 1 {
			t.Errorf("told %v after the end", told)
		}
	})
}

// Fault H8: outages that follow each other, each of them overcome, do not slow the watch
// down. The store's longest delay is that of production here.
func TestManyOutagesDoNotAddUp(t *testing.T) {
	t.Parallel()
	api := newServer(t)
	api.put(named("a"))
	s := New(api.client(), Options{MinBackoff: time.Millisecond})
	t.Cleanup(s.Close)
	v, heard := listen(s, Selection{Resource: configMaps})
	receive(t, v.Ready())
	hears(t, heard, "+a")
	// Added up, the attempts of the first ten or so would reach the longest delay, 15 to
	// 30 s, and each outage after these would outlast the patience of this test.
	for range 20 {
		api.speak(100 * time.Millisecond)
		refused := make(chan struct{}, 1000)
		api.with(func() {
			api.refuse = func(*http.Request) *metav1.Status {
				refused <- struct{}{}
				return &metav1.Status{Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "away"}
			}
			api.broadcast(break_)
			api.watchers = map[chan string]bool{}
		})
		for range 4 {
			receive(t, refused)
		}
		api.with(func() { api.refuse = nil })
		api.put(named("a"))
		hears(t, heard, "~a")
	}
}

// Fault H8: while a watch is neither connected nor refused, its health says so.
func TestALostConnectionIsIllHealth(t *testing.T) {
	t.Parallel()
	api := newServer(t)
	api.put(named("a"))
	told := make(chan error, 100)
	s := New(api.client(), Options{MinBackoff: time.Hour, MaxBackoff: 4 * time.Hour, Patience: time.Millisecond, OnHealth: func(_ Selection, err error) { told <- err }})
	t.Cleanup(s.Close)
	v := s.Watch(Selection{Resource: configMaps}, nil)
	receive(t, v.Ready())
	api.request(isStream)
	// The watch ends with an error, after which the list is to be asked for anew: in an hour.
	api.with(func() {
		api.broadcast(`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}` + "\n")
		api.watchers = map[chan string]bool{}
	})
	if err := receive(t, told); err == nil || !strings.Contains(err.Error(), "watch configmaps.v1: the connection to the API server was lost") {
		t.Errorf("told %v", err)
	}
	if v.Err() == nil {
		t.Error("no error")
	}
}
