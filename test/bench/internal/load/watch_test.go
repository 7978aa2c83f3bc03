package load

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	const text = `{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":"thing-00000","uid":"u"},"spec":{"value":"a"},"status":{"ready":1,"value":"b"}}}
{"type":"BOOKMARK","object":{"kind":"Thing","metadata":{"resourceVersion":"7"}}}
{"type":"BOOKMARK","object":{"kind":"Thing","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"DELETED","object":{"kind":"ConfigMap","metadata":{"name":"thing-00000-0","resourceVersion":"9"},"data":{"value":"c"}}}
`
	want := []Sighting{
		{Name: "thing-00000", UID: "u", Wanted: "a", Value: "b", Ready: 1},
		{Name: "thing-00000-0", Child: true, Gone: true, Value: "c"},
	}
	var got []Sighting
	s := stream{path: "p", see: func(s Sighting, _ time.Time) { got = append(got, s) }, synced: make(chan struct{})}
	if s.query()["sendInitialEvents"] != "true" {
		t.Errorf("the first watch asks for %v", s.query())
	}
	if err := s.read(strings.NewReader(text)); !errors.Is(err, errClosed) {
		t.Errorf("at the end: %v", err)
	}
	<-s.synced
	if s.query()["resourceVersion"] != "9" {
		t.Errorf("the next watch asks for %v", s.query())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReadError(t *testing.T) {
	s := stream{path: "p", synced: make(chan struct{})}
	err := s.read(strings.NewReader(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old"}}`))
	if err == nil || errors.Is(err, errClosed) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v", err)
	}
}
