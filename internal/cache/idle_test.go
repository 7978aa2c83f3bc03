package cache

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A request that is never answered, or whose body stops half-way, is reported and sent again. When
// the API server answers again, the watch works and misses nothing.
func TestSilentRequestIsReportedAndRepeated(t *testing.T) {
	t.Parallel()
	all := func(*http.Request) bool { return true }
	for name, test := range map[string]struct {
		fault  func(*server)
		repeat func(*http.Request) bool
		synced bool
	}{
		"a watch without headers after a list":   {func(s *server) { s.hang = isWatch }, isResume, true},
		"a list without headers":                 {func(s *server) { s.noStreams, s.hang = true, isList }, isList, false},
		"half a list":                            {func(s *server) { s.noStreams, s.stall = true, isList }, isList, false},
		"half a streamed list, then half a list": {func(s *server) { s.stall = all }, isList, false},
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
