package probe

import (
	"context"
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/must"
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
	go func() { served <- Serve(ctx, recorder, http.NewServeMux(), AnyAddress, writer) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	var address Address
	must.Succeed(t, json.NewDecoder(reader).Decode(&address))
	return recorder, &Client{Base: address.URL}
}

func TestCallsAreCounted(t *testing.T) {
	recorder, client := start(t)
	before, err := client.Stats(t.Context())
	if err != nil || before.Calls != 0 || !before.Last.IsZero() {
		t.Errorf("before any call: %+v, %v", before, err)
	}
	at := time.Now()
	recorder.Entered("p", "a", at.Add(-time.Second))
	recorder.Entered("p", "b", at)
	recorder.Customized()
	after, err := client.Stats(t.Context())
	if err != nil || after.Calls != 2 || after.Customized != 1 || !after.Last.Equal(at) || !after.First.Equal(at.Add(-time.Second)) {
		t.Errorf("after two calls: %+v, %v", after, err)
	}
}

func TestReady(t *testing.T) {
	recorder, client := start(t)
	if client.Ready(t.Context()) {
		t.Error("ready before anybody said so")
	}
	recorder.SetReady()
	if !client.Ready(t.Context()) {
		t.Error("not ready after it was said")
	}
}

func TestFirstCallWithArmedValue(t *testing.T) {
	recorder, client := start(t)
	must.Succeed(t, client.Arm(t.Context(), "wanted", 1))
	at := time.Now()
	recorder.Entered("p", "other", at.Add(-time.Second))
	recorder.Entered("p", "wanted", at)
	recorder.Entered("p", "wanted", at.Add(time.Second))
	got, err := client.Entered(t.Context(), "wanted")
	if err != nil || !got.Equal(at) {
		t.Errorf("got %v, %v, want %v", got, err, at)
	}
	if _, err := client.Entered(t.Context(), "other"); err == nil {
		t.Error("waiting for a value that is not armed: no error")
	}
}

func TestLastOfSeveralParents(t *testing.T) {
	recorder, client := start(t)
	must.Succeed(t, client.Arm(t.Context(), "wanted", 2))
	at := time.Now()
	recorder.Shown("a", "wanted", at.Add(-2*time.Second))
	recorder.Shown("a", "wanted", at.Add(-time.Second))
	recorder.Shown("b", "wanted", at)
	recorder.Shown("c", "wanted", at.Add(time.Second))
	if got, err := client.Entered(t.Context(), "wanted"); err != nil || !got.Equal(at) {
		t.Errorf("got %v, %v, want %v", got, err, at)
	}
	if err := client.Arm(t.Context(), "wanted", 0); err == nil {
		t.Error("waiting for no process: no error")
	}
}

func TestLastBody(t *testing.T) {
	recorder, client := start(t)
	if _, err := client.Body(t.Context()); err == nil {
		t.Error("no call yet: no error")
	}
	recorder.SetBody([]byte(`{"a":1}`))
	recorder.SetBody([]byte(`{"a":2}`))
	if got, err := client.Body(t.Context()); err != nil || string(got) != `{"a":2}` {
		t.Errorf("got %s, %v", got, err)
	}
}
