package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlineRecorder is a connection that records read deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (s *deadlineRecorder) SetReadDeadline(end time.Time) error {
	s.deadlines = append(s.deadlines, end)
	return nil
}

// countingReader is a body that counts read bytes.
type countingReader struct{ read int }

func (e *countingReader) Read(into []byte) (int, error) {
	e.read += len(into)
	return copy(into, strings.Repeat("x", len(into))), nil
}

func TestAnonymousBodyLimit(t *testing.T) {
	s := newBrowser(t, newTokenServer(t).URL).server
	for origin, most := range map[string]int{"http://dashboard.example.org": 40 << 10, "http://evil.example.org": 0} {
		body := &countingReader{}
		r := httptest.NewRequest(http.MethodPost, "http://dashboard.example.org/signin", io.NopCloser(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, r)
		if body.read > most {
			t.Errorf("from %s: %d bytes are read", origin, body.read)
		}
		if len(w.deadlines) != 1 || time.Until(w.deadlines[0]) > bodyTimeout || time.Until(w.deadlines[0]) < bodyTimeout/2 {
			t.Errorf("from %s: the body has until %v", origin, w.deadlines)
		}
	}
}

func TestReadDeadlineIsCleared(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	r := httptest.NewRequest(http.MethodPost, "http://localhost/signout", strings.NewReader("csrf="))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req, err := s.authenticator.Authenticate(fromOwner(s, r))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Csrf-Token", req.CSRF)
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	s.ServeHTTP(w, r)
	if len(w.deadlines) != 3 || !w.deadlines[2].IsZero() {
		t.Errorf("status %d: the request has until %v", w.Code, w.deadlines)
	}
}

func TestStreamLimit(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	for range maxStreams {
		if !s.streams.acquire("dev") {
			t.Fatal("there are too many already")
		}
	}
	if w := get(t, s, "/live"); w.Code != http.StatusTooManyRequests {
		t.Errorf("one too many has status %d", w.Code)
	}
	if !s.streams.acquire("ann") {
		t.Error("another user has none")
	}
	s.streams.release("dev")
	if !s.streams.acquire("dev") {
		t.Error("one that was closed still counts")
	}
}
