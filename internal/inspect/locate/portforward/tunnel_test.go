package portforward

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// fakeStream is a stream that was reset, or has a text.
type fakeStream struct{ text string }

func (s fakeStream) Read(into []byte) (int, error) {
	if s.text == "" {
		return 0, errReset
	}
	return copy(into, s.text), io.EOF
}
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

// resetting is a connection whose data streams are reset before they are there.
type resetting struct{ httpstream.Connection }

func (resetting) CreateStream(headers http.Header) (httpstream.Stream, error) {
	if headers.Get(corev1.StreamType) == corev1.StreamTypeError {
		return fakeStream{"connection refused by 1"}, nil
	}
	return nil, errReset
}

func (resetting) CloseChan() <-chan bool             { return nil }
func (resetting) RemoveStreams(...httpstream.Stream) {}

func TestDataStreamIsResetAtOnce(t *testing.T) {
	tunnel := &tunnel{connection: resetting{}}
	if _, err := tunnel.dial(t.Context(), "", ""); err == nil || !strings.HasSuffix(err.Error(), "connection refused by 1") {
		t.Errorf("dialed: %v", err)
	}
}
