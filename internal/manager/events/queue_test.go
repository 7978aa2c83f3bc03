package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// apiServer stores events while it is open.
type apiServer struct {
	mu    sync.Mutex
	posts map[string]int
	open  chan struct{}
	// code is the status of all responses, if not 200.
	code int
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent corev1.Event
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &sent)
	select {
	case <-s.open:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts[r.Method+" "+sent.InvolvedObject.Name]++
	if s.code != 0 {
		body = fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, s.code)
	}
	return &http.Response{
		StatusCode: max(s.code, http.StatusOK), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

// testWriter is an event writer with a limit, and what it logs and counts.
type testWriter struct {
	*Writer
	*apiServer

	log     bytes.Buffer
	mu      sync.Mutex
	dropped map[string]int
}

func newTestWriter(t *testing.T, limit int) *testWriter {
	t.Helper()
	e := &testWriter{apiServer: &apiServer{posts: map[string]int{}, open: make(chan struct{})}, dropped: map[string]int{}}
	codecs := serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: "http://events", Transport: e.apiServer, APIPath: "/", QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: codecs}})).In(t)
	e.Writer = NewWriter(client, Options{Limit: limit, Log: slog.New(slog.NewTextHandler(&e.log, nil)), Dropped: func(reason string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.dropped[reason]++
	}})
	return e
}

func (e *testWriter) sendBurst(objects int) {
	var workers sync.WaitGroup
	for i := range objects {
		workers.Go(func() {
			e.EventAt(hook.ObjectEvent{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("p-", i), Event: hook.Event{Type: "Normal", Reason: "Seen"}})
		})
	}
	workers.Wait()
}

// finish waits until all events are sent or dropped, however long that takes.
func (e *testWriter) finish() {
	for e.waiting.Load() > 0 {
		goruntime.Gosched()
	}
	e.Close()
	e.running.Wait()
}

// A burst that the API server does not take yet is sent later, and nothing waits for it.
func TestEventsOfABurst(t *testing.T) {
	e := newTestWriter(t, 3000)
	e.sendBurst(3000)
	close(e.open)
	e.finish()
	if len(e.posts) != 3000 || len(e.dropped) > 0 || e.log.Len() > 0 {
		t.Errorf("%d events sent, dropped %v, logged %s", len(e.posts), e.dropped, &e.log)
	}
}

// What exceeds the limit is counted, and logged once.
func TestDroppedEvents(t *testing.T) {
	e := newTestWriter(t, 10)
	e.sendBurst(100)
	close(e.open)
	e.finish()
	if len(e.posts) != 10 || e.dropped[QueueFull] != 90 || strings.Count(e.log.String(), "event queue is full") != 1 {
		t.Errorf("%d events sent, dropped %v, logged %s", len(e.posts), e.dropped, &e.log)
	}
}

// An event that the API server refuses is dropped without a retry.
func TestRejectedEvents(t *testing.T) {
	e := newTestWriter(t, 10)
	e.code = http.StatusForbidden
	close(e.open)
	e.sendBurst(1)
	e.finish()
	if e.posts["POST p-0"] != 1 || e.dropped[Rejected] != 1 || !strings.Contains(e.log.String(), "event not sent") {
		t.Errorf("sent %v, dropped %v, logged %s", e.posts, e.dropped, &e.log)
	}
}

// What is not sent when the queue is closed is counted.
func TestUnsentEventsAtTheEnd(t *testing.T) {
	e := newTestWriter(t, 10)
	e.code = http.StatusServiceUnavailable
	close(e.open)
	e.sendBurst(1)
	e.Close()
	e.running.Wait()
	if e.dropped[Unreachable] != 1 {
		t.Errorf("sent %v, dropped %v, logged %s", e.posts, e.dropped, &e.log)
	}
}

// Repeated events are one, and many different ones of one object are limited.
func TestRepeatedEvents(t *testing.T) {
	e := newTestWriter(t, 1000)
	close(e.open)
	for range 5 {
		e.EventAt(hook.ObjectEvent{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "p", Event: hook.Event{Type: "Normal", Reason: "Seen", Message: "same"}})
	}
	for i := range 100 {
		e.EventAt(hook.ObjectEvent{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "q", Event: hook.Event{Type: "Normal", Reason: fmt.Sprint("Seen", i)}})
	}
	e.finish()
	if e.posts["POST p"] != 1 || e.posts["PATCH "] != 4 || e.posts["POST q"] != 25 {
		t.Errorf("sent %v", e.posts)
	}
}
