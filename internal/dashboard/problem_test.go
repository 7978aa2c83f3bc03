package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// cancelingSource is a process that cancels the request and never responds.
type cancelingSource struct {
	fakeSource
	cancel context.CancelFunc
}

func (l *cancelingSource) Process(ctx context.Context) (inspect.Process, error) {
	l.cancel()
	<-ctx.Done()
	return inspect.Process{}, ctx.Err()
}

// A canceled page is not shown incomplete or empty.
func TestCanceledPageIsUnavailable(t *testing.T) {
	for _, path := range []string{"/", "/controllers/setpoint/x"} {
		ctx, leave := context.WithCancel(t.Context())
		s := newServer(t, &cancelingSource{fakeSource{name: "setpoint"}, leave})
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, http.NoBody)
		if path != "/" {
			leave()
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "canceled") {
			t.Errorf("%s: %d %v\n%s", path, w.Code, w.Header(), w.Body)
		}
		wantTexts(t, w.Body.String(), "reloads automatically", "Retry now")
	}
}

// A form is not sent again automatically.
func TestFormsAreNotRetriedAutomatically(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	for from, back := range map[string]string{
		"http://localhost/resources/pods/shop/a": `href="/resources/pods/shop/a"`, "http://evil.example.org/x": `href="/"`, "": `href="/"`,
	} {
		w := send(s, http.MethodPost, "/resources/pods/shop/a/annotate", http.NoBody, "Referer", from)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") != "" || strings.Contains(w.Body.String(), "by itself") {
			t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
		}
		wantTexts(t, w.Body.String(), back, "Go back")
	}
}

func TestNotFoundDuringOutage(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	for doubt, want := range map[error]int{nil: http.StatusNotFound, userclient.ErrUnreachable: http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		req := &web.Request{Site: s.Site, W: w, R: httptest.NewRequest(http.MethodGet, "http://localhost/x", http.NoBody), User: &userclient.User{}}
		req.NoteAccess(doubt)
		req.RenderError(web.NotFound("There is no such thing."))
		if w.Code != want {
			t.Errorf("in doubt for %v: %d\n%s", doubt, w.Code, w.Body)
		}
	}
}
