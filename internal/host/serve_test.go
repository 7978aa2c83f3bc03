package host

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServersAreBounded(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config = newServer(http.NotFoundHandler())
	server.Start()
	defer server.Close()
	for size, want := range map[int]int{60 << 10: http.StatusNotFound, 80 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%d bytes of headers are answered with %d", size, response.StatusCode)
		}
	}
	if server.Config.IdleTimeout == 0 {
		t.Error("connections are kept for ever")
	}
}
