package watch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// pot is an object with a field of its own.
type pot struct {
	Head
	Spec struct{ Value string }
}

func TestRead(t *testing.T) {
	const text = `{"type":"ADDED","object":{"kind":"Pot","metadata":{"name":"a"},"spec":{"value":"one"}}}
{"type":"BOOKMARK","object":{"kind":"Pot","metadata":{"resourceVersion":"7"}}}
{"type":"BOOKMARK","object":{"kind":"Pot","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"DELETED","object":{"kind":"Pot","metadata":{"name":"b","resourceVersion":"9"}}}
`
	var got []string
	s := stream[pot, *pot]{path: "p", synced: make(chan struct{}), see: func(p *pot, gone bool, _ time.Time) {
		if gone {
			got = append(got, "gone")
		}
		got = append(got, p.Metadata.Name+p.Spec.Value)
	}}
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
	if want := []string{"aone", "gone", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReadError(t *testing.T) {
	s := stream[pot, *pot]{path: "p", synced: make(chan struct{})}
	err := s.read(strings.NewReader(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old"}}`))
	if err == nil || errors.Is(err, errClosed) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v", err)
	}
}
