package ui

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// slow is a connection that notes by when it has to have been read.
type slow struct {
	*httptest.ResponseRecorder
	ends []time.Time
}

func (s *slow) SetReadDeadline(end time.Time) error {
	s.ends = append(s.ends, end)
	return nil
}

// endless is a body that notes how much of it was read.
type endless struct{ read int }

func (e *endless) Read(into []byte) (int, error) {
	e.read += len(into)
	return copy(into, strings.Repeat("x", len(into))), nil
}

func TestStrangersSendLittle(t *testing.T) {
	s := newBrowser(t, newTokens(t).URL).server
	for origin, most := range map[string]int{"http://window.example.org": 40 << 10, "http://evil.example.org": 0} {
		body := &endless{}
		r := httptest.NewRequest(http.MethodPost, "http://window.example.org/signin", io.NopCloser(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		w := &slow{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, r)
		if body.read > most {
			t.Errorf("from %s: %d bytes are read", origin, body.read)
		}
		if len(w.ends) != 1 || time.Until(w.ends[0]) > bodyLimit || time.Until(w.ends[0]) < bodyLimit/2 {
			t.Errorf("from %s: the body has until %v", origin, w.ends)
		}
	}
}

func TestWhatIsReadMayTakeLonger(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	r := httptest.NewRequest(http.MethodPost, "http://localhost/signout", strings.NewReader("csrf="))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	v, err := s.gate.Visitor(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Csrf-Token", v.CSRF)
	w := &slow{ResponseRecorder: httptest.NewRecorder()}
	s.ServeHTTP(w, r)
	if len(w.ends) != 3 || !w.ends[2].IsZero() {
		t.Errorf("answered %d: the request has until %v", w.Code, w.ends)
	}
}

func TestStreamsAreCounted(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	for range maxStreams {
		if !s.streams.open("dev") {
			t.Fatal("there are too many already")
		}
	}
	if w := get(t, s, "/live"); w.Code != http.StatusTooManyRequests {
		t.Errorf("one too many is answered with %d", w.Code)
	}
	if !s.streams.open("ann") {
		t.Error("somebody else has none")
	}
	s.streams.close("dev")
	if !s.streams.open("dev") {
		t.Error("one that was closed still counts")
	}
}
