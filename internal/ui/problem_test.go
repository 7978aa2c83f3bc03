package ui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// leaving is a process that never answers, and whose asker is gone once it was asked.
type leaving struct {
	still
	leave context.CancelFunc
}

func (l *leaving) Process(ctx context.Context) (inspect.Process, error) {
	l.leave()
	<-ctx.Done()
	return inspect.Process{}, ctx.Err()
}

// A page that is cut short is none: not one that shows less, and not an empty one.
func TestAPageThatIsCutShortIsNone(t *testing.T) {
	for _, path := range []string{"/", "/controllers/setpoint/x"} {
		ctx, leave := context.WithCancel(t.Context())
		s := serve(t, &leaving{still{name: "setpoint"}, leave})
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, http.NoBody)
		if path != "/" {
			leave()
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "canceled") {
			t.Errorf("%s: %d %v\n%s", path, w.Code, w.Header(), w.Body)
		}
		wants(t, w.Body.String(), "comes back by itself", "Try again now")
	}
}

// What was sent does not come back by itself, and cannot be got again at its address.
func TestWhatWasSentIsSentAgainByHand(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	for from, back := range map[string]string{
		"http://localhost/resources/pods/shop/a": `href="/resources/pods/shop/a"`, "http://evil.example.org/x": `href="/"`, "": `href="/"`,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/resources/pods/shop/a/ask", strings.NewReader(url.Values{"csrf": {csrf(t, s)}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Referer", from)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") != "" || strings.Contains(w.Body.String(), "by itself") {
			t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
		}
		wants(t, w.Body.String(), back, "Back to send it again")
	}
}

// csrf is what forms of a server that is open to all carry.
func csrf(t *testing.T, s *Server) string {
	t.Helper()
	v, err := s.gate.Visitor(httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	return v.CSRF
}

func TestWhatIsMissingMayBeAnOutage(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	for doubt, want := range map[error]int{nil: http.StatusNotFound, asuser.ErrUnreachable: http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		v := &visit{Server: s, w: w, r: httptest.NewRequest(http.MethodGet, "http://localhost/x", http.NoBody), visitor: &access.Visitor{}}
		v.doubt.note(doubt)
		v.fail(missing("There is no such thing."))
		if w.Code != want {
			t.Errorf("in doubt for %v: %d\n%s", doubt, w.Code, w.Body)
		}
	}
}
