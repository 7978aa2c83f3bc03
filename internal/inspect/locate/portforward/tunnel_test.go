package portforward

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
)

// fakeStream is a stream that was reset.
type fakeStream struct{}

func (fakeStream) Read([]byte) (int, error)  { return 0, errReset }
func (fakeStream) Write([]byte) (int, error) { return 0, errReset }
func (fakeStream) Close() error              { return nil }
func (fakeStream) Reset() error              { return nil }
func (fakeStream) Headers() http.Header      { return nil }
func (fakeStream) Identifier() uint32        { return 0 }

var errReset = errors.New("stream reset")

// Readers and writers both get the reason.
func TestStreamErrors(t *testing.T) {
	for said, want := range map[string]string{"connection refused by 1": "connection refused by 1", "": errReset.Error()} {
		s := &stream{Stream: fakeStream{}, errorRead: make(chan struct{})}
		go s.readError(strings.NewReader(said))
		for what, do := range map[string]func([]byte) (int, error){"read": s.Read, "write": s.Write} {
			if _, err := do(make([]byte, 1)); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s, %q was told: %v", what, said, err)
			}
		}
	}
}

// A connection that arrives after its context ended is closed.
func TestLateConnectionsAreClosed(t *testing.T) {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	_, err := openWithContext(ctx, func() (net.Conn, error) {
		<-ended
		return ours, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	close(ended)
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open still")
	}
}

func TestConnectionsInTimeAreReturned(t *testing.T) {
	ours, _ := net.Pipe()
	got, err := openWithContext(t.Context(), func() (net.Conn, error) { return ours, nil })
	if got != ours || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	refused := errors.New("refused")
	if _, err := openWithContext(t.Context(), func() (net.Conn, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
}
