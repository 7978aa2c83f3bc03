package portforward

import (
	"errors"
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
