package dashboard

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Fault U12: responses are compressed, except pages that another site requests, since their
// size would leak content.
func TestCompression(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}})
	page, asset := "/", s.assets.url("app.css")
	for _, test := range []struct {
		path, accept, site string
		compressed         bool
	}{
		{page, "gzip, deflate, br", "same-origin", true},
		{page, "br, gzip;q=0.5", "none", true},
		{page, "gzip", "cross-site", false},
		{page, "gzip", "same-site", false},
		{page, "gzip", "", false},
		{page, "gzip;q=0", "same-origin", false},
		{page, "br", "same-origin", false},
		{page, "", "same-origin", false},
		{asset, "gzip", "", true},
		{asset, "", "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+test.path, http.NoBody)
		r.Header.Set("Accept-Encoding", test.accept)
		r.Header.Set("Sec-Fetch-Site", test.site)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != test.compressed || w.Code != http.StatusOK {
			t.Errorf("%+v: status %d, %v", test, w.Code, w.Header())
			continue
		}
		if vary := strings.Join(w.Header().Values("Vary"), ","); !strings.Contains(vary, "Accept-Encoding") || strings.Contains(vary, "Sec-Fetch-Site") != (test.path == page) {
			t.Errorf("%+v: varies by %q", test, vary)
		}
		var body io.Reader = w.Body
		if test.compressed {
			inflated, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatalf("%+v: %v", test, err)
			}
			body = inflated
		}
		text, err := io.ReadAll(body)
		if want := map[string]string{page: "teams", asset: "color-scheme"}[test.path]; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%+v: %v, without %q", test, err, want)
		}
	}
}
