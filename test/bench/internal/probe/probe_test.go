package probe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"
)

// start serves a recorder for the length of a test.
func start(t *testing.T) (*Recorder, *Client) {
	t.Helper()
	recorder, served := &Recorder{}, make(chan error, 1)
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- Serve(ctx, recorder, http.NewServeMux(), writer) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	var address Address
	if err := json.NewDecoder(reader).Decode(&address); err != nil {
		t.Fatal(err)
	}
	return recorder, &Client{Base: address.URL}
}

func TestCallsAreCounted(t *testing.T) {
	recorder, client := start(t)
	before, err := client.Stats(t.Context())
	if err != nil || before.Calls != 0 || !before.Last.IsZero() {
		t.Errorf("before any call: %+v, %v", before, err)
	}
	at := time.Now()
	recorder.Entered("a", at.Add(-time.Second))
	recorder.Entered("b", at)
	after, err := client.Stats(t.Context())
	if err != nil || after.Calls != 2 || !after.Last.Equal(at) {
		t.Errorf("after two calls: %+v, %v", after, err)
	}
}

func TestReadyWhenSaid(t *testing.T) {
	recorder, client := start(t)
	if client.Ready(t.Context()) {
		t.Error("ready before anybody said so")
	}
	recorder.SetReady()
	if !client.Ready(t.Context()) {
		t.Error("not ready after it was said")
	}
}

func TestFirstCallWithTheArmedValue(t *testing.T) {
	recorder, client := start(t)
	if err := client.Arm(t.Context(), "wanted"); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	recorder.Entered("other", at.Add(-time.Second))
	recorder.Entered("wanted", at)
	recorder.Entered("wanted", at.Add(time.Second))
	got, err := client.Entered(t.Context(), "wanted")
	if err != nil || !got.Equal(at) {
		t.Errorf("got %v, %v, want %v", got, err, at)
	}
	if _, err := client.Entered(t.Context(), "other"); err == nil {
		t.Error("waiting for a value that is not armed: no error")
	}
}
