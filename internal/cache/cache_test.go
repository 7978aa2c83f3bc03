package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func namedObject(name string) testObject {
	return testObject{key: key{"default", name}, uid: "uid-" + name, labels: map[string]string{"app": name}}
}

// eventText describes an event in a word.
func eventText(e Event) string {
	switch {
	case e.Old == nil:
		return "+" + e.New.Name()
	case e.New == nil:
		return "-" + e.Old.Name()
	}
	return "~" + e.New.Name()
}

// openView opens a view and returns its events.
func openView(c *Cache, selection Selection) (*View, chan string) {
	events := make(chan string, 1000)
	return c.Watch(selection, func(e Event) { events <- eventText(e) }), events
}

// openReadyView opens a view and waits for its first list.
func openReadyView(t *testing.T, c *Cache, selection Selection) (*View, chan string) {
	t.Helper()
	v, events := openView(c, selection)
	receive(t, v.Ready())
	return v, events
}

func expectEvents(t *testing.T, events <-chan string, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, receive(t, events))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
}

func expectNoEvents(t *testing.T, events <-chan string) {
	t.Helper()
	select {
	case got := <-events:
		t.Fatalf("events %v, want none", got)
	default:
	}
}

func TestWatchFollowsTheServer(t *testing.T) {
	for name, noStreams := range map[string]bool{"streamed list": false, "paged list": true} {
		t.Run(name, func(t *testing.T) {
			api := newServer(t)
			api.noStreams, api.pageSize = noStreams, 2
			for i := range 5 {
				api.put(namedObject(fmt.Sprint("o", i)))
			}
			v, events := openReadyView(t, api.store(Options{}), Selection{Resource: configMaps})
			expectEvents(t, events, "+o0", "+o1", "+o2", "+o3", "+o4")
			if !v.Synced() || v.Len() != 5 || v.Err() != nil {
				t.Fatalf("synced %v, %d objects, error %v", v.Synced(), v.Len(), v.Err())
			}
			if o := v.Get("default", "o3"); o.Kind() != "ConfigMap" || o.APIVersion() != "v1" || o.UID() != "uid-o3" {
				t.Fatalf("got %s", o.JSON())
			}
			if noStreams {
				// Until a watch is open, a change may be part of a list.
				api.request(isResume)
			}
			api.put(namedObject("o0"))
			api.put(namedObject("late"))
			api.delete(key{"default", "o1"})
			expectEvents(t, events, "~o0", "+late", "-o1")
			if v.Get("default", "o1") != nil || v.Get("default", "late") == nil {
				t.Fatal("the cache lags behind its events")
			}
		})
	}
}

func TestWatchRequestsItsSelection(t *testing.T) {
	api := newServer(t)
	openReadyView(t, api.store(Options{}), Selection{Resource: configMaps, Namespace: "default", Labels: "b=2,a in (1)"})
	r := api.request(isStream)
	if r.URL.Path != "/api/v1/namespaces/default/configmaps" {
		t.Errorf("path %s", r.URL.Path)
	}
	for name, want := range map[string]string{
		"labelSelector": "a in (1),b=2", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan",
	} {
		if got := r.URL.Query().Get(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
}

// A client may watch one object without access to others.
func TestWatchOfOneObject(t *testing.T) {
	api := newServer(t)
	c := api.store(Options{})
	selection := Selection{Resource: configMaps, Namespace: "default", Name: "a"}
	v, events := openReadyView(t, c, selection)
	r := api.request(isStream)
	if r.URL.Path != "/api/v1/namespaces/default/configmaps" || r.URL.Query().Get("fieldSelector") != "metadata.name=a" {
		t.Errorf("requested %s", r.URL)
	}
	if got, want := selection.String(), "configmaps.v1 in default named a"; got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	other, own := namedObject("b"), namedObject("a")
	own.version, other.version = 7, 8
	v.ObserveWrite(other.parse(t))
	if v.Len() != 0 {
		t.Error("the view took in another object")
	}
	v.ObserveWrite(own.parse(t))
	if v.Get("default", "a") == nil {
		t.Error("the view did not take in its object")
	}
	if len(events) > 0 {
		t.Errorf("notified of its own writes: %v", <-events)
	}
}

func TestFieldsAreSelectedByTheServer(t *testing.T) {
	for _, c := range []struct {
		selection Selection
		want      string
	}{
		{Selection{Resource: configMaps, Fields: "type=x"}, "type=x"},
		{Selection{Resource: configMaps, Name: "a", Fields: "type=x"}, "metadata.name=a,type=x"},
	} {
		api := newServer(t)
		openReadyView(t, api.store(Options{}), c.selection)
		if got := api.request(isStream).URL.Query().Get("fieldSelector"); got != c.want {
			t.Errorf("%s: requested %q, want %q", c.selection, got, c.want)
		}
	}
}

// ReadyOrFailed ends the wait for a first list that may never come.
func TestReadyOrFailed(t *testing.T) {
	api := newServer(t)
	var forbidden atomic.Bool
	forbidden.Store(true)
	api.refuse(metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "not yours"}, func(*http.Request) bool {
		return forbidden.Load()
	})
	c := api.store(Options{})
	v := c.Watch(Selection{Resource: configMaps}, nil)
	receive(t, v.ReadyOrFailed())
	late := c.Watch(Selection{Resource: configMaps}, nil)
	receive(t, late.ReadyOrFailed())
	if v.Synced() || !apierrors.IsForbidden(v.Err()) {
		t.Errorf("ReadyOrFailed with error %v", v.Err())
	}
	forbidden.Store(false)
	receive(t, late.Ready())
	receive(t, v.Ready())
	after := c.Watch(Selection{Resource: configMaps}, nil)
	receive(t, after.ReadyOrFailed())
	if !after.Synced() {
		t.Error("ReadyOrFailed is closed although nothing was listed and nothing failed")
	}
}

func TestWatchOfMetadata(t *testing.T) {
	for name, noStreams := range map[string]bool{"streamed list": false, "paged list": true} {
		t.Run(name, func(t *testing.T) {
			api := newServer(t)
			api.noStreams = noStreams
			api.kind = "PartialObjectMetadata"
			api.put(namedObject("a"))
			v, _ := openReadyView(t, api.store(Options{}), Selection{Resource: configMaps, Metadata: true})
			form := "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
			if got := api.request(isStream).Header.Get("Accept"); got != form {
				t.Errorf("watch accepts %s", got)
			}
			if noStreams {
				form = strings.Replace(form, "Metadata", "MetadataList", 1)
				if got := api.request(isList).Header.Get("Accept"); got != form {
					t.Errorf("list accepts %s", got)
				}
			}
			if o := v.Get("default", "a"); o.Ref().String() != "ConfigMap default/a" || o.APIVersion() != "v1" {
				t.Errorf("got %s of %s", o.Ref(), o.APIVersion())
			}
		})
	}
}

func TestWatchIsShared(t *testing.T) {
	api := newServer(t)
	api.put(namedObject("a"))
	c := api.store(Options{})
	first := c.Watch(Selection{Resource: configMaps, Labels: "x=1,y=2"}, nil)
	receive(t, first.Ready())
	api.request(isStream)

	second, events := openView(c, Selection{Resource: configMaps, Labels: "y=2, x=1"})
	receive(t, second.Ready())
	expectEvents(t, events, "+a")
	api.put(namedObject("b"))
	expectEvents(t, events, "+b")
	if len(api.opened) > 0 {
		t.Fatal("the second view made a request")
	}
	if stats := c.Stats(); len(stats) != 1 || stats[0].Objects != 2 || stats[0].Bytes == 0 || !stats[0].Synced {
		t.Fatalf("stats %+v", stats)
	}

	second.Close()
	second.Close()
	api.put(namedObject("c"))
	first.Close()
	receive(t, api.closed)
	expectNoEvents(t, events)
	if stats := c.Stats(); len(stats) != 0 {
		t.Fatalf("stats %+v", stats)
	}

	receive(t, c.Watch(Selection{Resource: configMaps}, nil).Ready())
}

// A watch is resumed after an outage, without a list.
func TestWatchResumesAfterAnOutage(t *testing.T) {
	api := newServer(t)
	api.put(namedObject("a"))
	v, events := openReadyView(t, api.store(Options{}), Selection{Resource: configMaps})
	expectEvents(t, events, "+a")
	api.request(isStream)
	api.put(namedObject("warm"))
	expectEvents(t, events, "+warm")

	failed := make(chan struct{}, 1000)
	api.locked(func() {
		api.reject = func(*http.Request) *metav1.Status {
			failed <- struct{}{}
			panic(http.ErrAbortHandler) // The connection ends without a response.
		}
		api.broadcast(breakConnection)
		api.watchers = map[chan string]bool{}
	})
	for range 3 {
		receive(t, failed)
	}
	api.locked(func() { api.reject = nil })
	api.put(namedObject("b"))
	expectEvents(t, events, "+b")
	for len(api.opened) > 0 {
		if r := receive(t, api.opened); !isResume(r) {
			t.Errorf("requested %s", r.URL)
		}
	}
	if lists := v.watch.stat().Lists; lists != 1 {
		t.Errorf("listed %d times", lists)
	}
}

func TestWatchResumes(t *testing.T) {
	broken := `{"type":"ADDED","object":{"apiVersion":"v1","ki`
	tests := map[string]struct {
		end  []string
		next func(*http.Request) bool
	}{
		"after a hang-up":                {[]string{closeConnection}, isResume},
		"after a broken connection":      {[]string{breakConnection}, isResume},
		"after the end within an event":  {[]string{broken, closeConnection}, isResume},
		"after the break of an event":    {[]string{broken, breakConnection}, isResume},
		"with a list after expiry":       {[]string{expired}, isStream},
		"with a list after an error":     {[]string{`{"type":"ERROR","object":{"kind":"Status","code":500}}` + "\n"}, isStream},
		"with a list after nonsense":     {[]string{"<html>\n"}, isStream},
		"with a list after a bad object": {[]string{`{"type":"ADDED","object":{"metadata":{"name":7}}}` + "\n"}, isStream},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			api := newServer(t)
			api.put(namedObject("a"))
			api.put(namedObject("b"))
			v, events := openReadyView(t, api.store(Options{}), Selection{Resource: configMaps})
			expectEvents(t, events, "+a", "+b")
			api.request(isStream)
			api.put(namedObject("warm")) // a watch that brought nothing is not resumed
			expectEvents(t, events, "+warm")

			api.locked(func() {
				for _, text := range test.end {
					api.broadcast(text)
				}
				api.watchers = map[chan string]bool{}
			})
			api.delete(key{"default", "a"})
			api.put(namedObject("b"))
			api.put(namedObject("c"))
			expectEvents(t, events, "-a", "~b", "+c")
			api.request(test.next)
			if v.Len() != 3 {
				t.Fatalf("%d objects", v.Len())
			}
			expectNoEvents(t, events)
		})
	}
}

func TestIncompleteStreamFallsBackToList(t *testing.T) {
	api := newServer(t)
	api.put(namedObject("a"))
	api.refuse(metav1.Status{Code: http.StatusOK}, isStream) // a stream of one thing that is no event
	v, _ := openReadyView(t, api.store(Options{}), Selection{Resource: configMaps})
	api.request(isList)
	if v.Len() != 1 {
		t.Fatalf("%d objects", v.Len())
	}
}

func TestHealth(t *testing.T) {
	refusals := map[string]struct {
		status metav1.Status
		is     func(error) bool
	}{
		"forbidden":     {metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}, apierrors.IsForbidden},
		"not served":    {metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "what?"}, apierrors.IsNotFound},
		"bad selector":  {metav1.Status{Code: 400, Reason: metav1.StatusReasonBadRequest, Message: "hm"}, apierrors.IsBadRequest},
		"broken":        {metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "oh"}, apierrors.IsInternalError},
		"too much":      {metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "stop"}, apierrors.IsTooManyRequests},
		"not even JSON": {metav1.Status{Code: 502}, func(err error) bool { return err != nil }},
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			api := newServer(t)
			api.put(namedObject("a"))
			api.refuse(refusal.status, isAny)
			health := make(chan error, 1000)
			var c *Cache
			c = api.store(Options{GracePeriod: 1, OnHealth: func(_ Selection, err error) {
				c.Stats() // OnHealth may read the statistics
				health <- err
			}})
			v := c.Watch(Selection{Resource: configMaps}, nil)
			if err := receive(t, health); !refusal.is(err) || !strings.Contains(err.Error(), "watch configmaps.v1: ") {
				t.Fatalf("got %v", err)
			}
			for range 5 {
				api.request(isAny)
			}
			if v.Synced() || !refusal.is(v.Err()) {
				t.Fatalf("synced %v, error %v", v.Synced(), v.Err())
			}

			api.locked(func() { api.reject = nil })
			receive(t, v.Ready())
			if err := receive(t, health); err != nil || v.Err() != nil {
				t.Fatalf("still %v, %v", err, v.Err())
			}
		})
	}
}

// A client that may list but not watch has a synced view with a constant error.
func TestHealthWithoutWatch(t *testing.T) {
	api := newServer(t)
	api.refuse(metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "look, do not watch"}, isWatch)
	health := make(chan error, 1000)
	v, _ := openReadyView(t, api.store(Options{OnHealth: func(_ Selection, err error) { health <- err }}), Selection{Resource: configMaps})
	if err := receive(t, health); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v", err)
	}
	for range 5 {
		api.request(isResume)
	}
	if len(health) > 0 || !apierrors.IsForbidden(v.Err()) {
		t.Fatalf("reported more: %v; error %v", <-health, v.Err())
	}
}

func TestCloseDoesNotWaitForTheServer(t *testing.T) {
	api := newServer(t)
	down := make(chan error, 1000)
	c := New(api.client(), Options{OnHealth: func(_ Selection, err error) { down <- err }, MinBackoff: 1 << 40, MaxBackoff: 1 << 41})
	api.http.Close()
	v := c.Watch(Selection{Resource: configMaps}, nil)
	if err := receive(t, down); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	c.Close()
	if v.Synced() || c.Watch(Selection{Resource: configMaps, Namespace: "x"}, nil).Synced() {
		t.Fatal("synced with a server that is down")
	}
	v.Close()
}

func TestOwnWriteIsReadImmediately(t *testing.T) {
	api := newServer(t)
	api.put(namedObject("a"))
	c := api.store(Options{})
	writer, own := openView(c, Selection{Resource: configMaps})
	_, other := openView(c, Selection{Resource: configMaps})
	receive(t, writer.Ready())
	expectEvents(t, own, "+a")
	expectEvents(t, other, "+a")

	// The response to our write arrives before its event.
	api.locked(func() { api.version += 2 })
	newer := namedObject("a")
	newer.version = api.version
	written := newer.parse(t)
	writer.ObserveWrite(written)
	if writer.Get("default", "a") != written {
		t.Fatal("our own write is not in the cache")
	}
	expectEvents(t, other, "~a")
	api.locked(func() { api.emit("MODIFIED", newer.json()) })
	api.put(namedObject("b"))
	expectEvents(t, own, "+b")
	expectEvents(t, other, "+b")

	writer.ObserveDelete(written)
	if writer.Get("default", "a") != nil {
		t.Fatal("what we removed is still there")
	}
	expectEvents(t, other, "-a")
	api.delete(key{"default", "a"})
	api.put(namedObject("c"))
	expectEvents(t, own, "+c")
	expectEvents(t, other, "+c")
}

// A change of another client that our write has overtaken is still delivered to the writer.
func TestStaleChangeIsDelivered(t *testing.T) {
	api := newServer(t)
	api.put(namedObject("a"))
	c := api.store(Options{})
	writer, own := openView(c, Selection{Resource: configMaps})
	_, other := openView(c, Selection{Resource: configMaps})
	receive(t, writer.Ready())
	expectEvents(t, own, "+a")
	expectEvents(t, other, "+a")

	newer := namedObject("a")
	api.locked(func() { newer.version = api.version + 2 })
	writer.ObserveWrite(newer.parse(t))
	expectEvents(t, other, "~a")
	api.put(namedObject("a")) // theirs, just before ours
	expectEvents(t, own, "~a")
	if got := writer.Get("default", "a").Version(); got != newer.version {
		t.Fatalf("version %d, want our own %d", got, newer.version)
	}
	expectNoEvents(t, other)
}

func TestUnusualStreams(t *testing.T) {
	a, b := namedObject("a"), namedObject("b")
	a.version, b.version, b.data = 2, 3, strings.Repeat("x", 200<<10)
	bookmark := `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	event := func(o testObject) string { return `{"type":"ADDED","object":` + o.json() + `}` }
	streams := map[string]string{
		"lines":            event(a) + "\n" + event(b) + "\n" + bookmark + "\n",
		"no line breaks":   event(a) + event(b) + bookmark,
		"pretty":           strings.ReplaceAll(event(a)+event(b)+bookmark, `":`, "\" :\n\t"),
		"object first":     `{"object":` + a.json() + `,"type":"ADDED"}` + "\n" + event(b) + "\n" + bookmark + "\n",
		"Windows":          event(a) + "\r\n" + event(b) + "\r\n" + bookmark + "\r\n",
		"large first":      event(b) + "\n" + event(a) + "\n" + bookmark + "\n",
		"no last newline":  event(a) + "\n" + event(b) + "\n" + bookmark,
		"blank lines":      "\n" + event(a) + "\n\n" + event(b) + "\n" + bookmark + "\n",
		"unfinished after": event(a) + "\n" + event(b) + "\n" + bookmark + "\n" + `{"type":"ADD`,
	}
	for name, text := range streams {
		t.Run(name, func(t *testing.T) {
			api := newServer(t)
			fallback := newServer(t)
			api.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isStream(r) {
					fmt.Fprint(w, text)
					return
				}
				fallback.ServeHTTP(w, r)
			})
			v, _ := openReadyView(t, api.store(Options{}), Selection{Resource: configMaps})
			if v.Len() != 2 || v.Get("default", "b").Size() < 200<<10 {
				t.Fatalf("%d objects", v.Len())
			}
		})
	}
}

// Many clients use a busy watch concurrently.
func TestConcurrentUse(t *testing.T) {
	api := newServer(t)
	c := api.store(Options{})
	parent := must.Get(object.Parse([]byte(`{"metadata": {"name": "parent", "namespace": "default", "uid": "parent"}}`))).In(t)
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 300 {
			o := namedObject(fmt.Sprint("o", i%20))
			if i%2 == 0 {
				o.owner = "parent"
			}
			api.put(o)
			if i%50 == 49 {
				api.send(closeConnection)
			}
		}
	})
	for range 4 {
		group.Go(func() {
			for range 20 {
				v, _ := openReadyView(t, c, Selection{Resource: configMaps})
				for o := range v.All() {
					v.ObserveWrite(o)
				}
				v.Owned(parent)
				v.Orphans("default", labels.SelectorFromSet(labels.Set{"app": "o1"}))
				c.Stats()
				v.Close()
			}
		})
	}
	group.Wait()
	v, _ := openReadyView(t, c, Selection{Resource: configMaps})
	if v.Len() != 20 || len(v.Owned(parent)) != 10 {
		t.Fatalf("%d objects, %d owned", v.Len(), len(v.Owned(parent)))
	}
}

// The API server throttles clients of a new CRD. That is healthy for a moment.
func TestBriefThrottlingIsHealthy(t *testing.T) {
	api := newServer(t)
	api.put(namedObject("a"))
	api.refuse(metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "storage is (re)initializing"}, isAny)
	notified := make(chan error, 10)
	c := api.store(Options{GracePeriod: time.Hour, OnHealth: func(_ Selection, err error) { notified <- err }})
	v := c.Watch(Selection{Resource: configMaps}, nil)
	for range 2 {
		api.request(isAny)
	}
	api.locked(func() { api.reject = nil })
	receive(t, v.Ready())
	select {
	case err := <-notified:
		t.Errorf("got %v", err)
	default:
	}
}

// The API server says how long a client waits that it throttles.
func TestThrottledListWaitsAsLongAsTheServerSays(t *testing.T) {
	api := newServer(t)
	api.refuse(apierrors.NewTooManyRequests("Too large resource version", 1).Status(), isAny)
	c := New(api.client(), Options{Log: slog.New(slog.DiscardHandler), MinBackoff: time.Millisecond})
	t.Cleanup(c.Close)
	v := c.Watch(Selection{Resource: configMaps}, nil)
	api.request(isAny)
	began := time.Now()
	api.locked(func() { api.reject = nil })
	receive(t, v.Ready())
	if waited := time.Since(began); waited < time.Second/2 {
		t.Errorf("waited %s", waited)
	}
}
