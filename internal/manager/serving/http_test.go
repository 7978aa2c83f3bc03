package serving

import (
	"context"
	"github.com/setpoint-dev/setpoint/internal/must"
	"io"
	"net"
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
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)).In(t)
		r.Header.Set("X-Long", strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(r)
		must.Succeed(t, err)
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%d bytes of headers: status %d", size, response.StatusCode)
		}
	}
	if server.Config.IdleTimeout == 0 {
		t.Error("no idle timeout")
	}
}

// When the process ends, reads are canceled and writes may finish.
func TestWritesFinishOnShutdown(t *testing.T) {
	begun, goOn := make(chan string), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- r.Method
		select {
		case <-goOn:
			_, _ = io.WriteString(w, "written")
		case <-r.Context().Done():
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")).In(t)
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Endpoint{listener, handler}.Serve(ctx) }()
	call := func(method string) chan string {
		response := make(chan string, 1)
		go func() { response <- responseText(t.Context(), method, "http://"+listener.Addr().String()) }()
		<-begun
		return response
	}
	reading, writing := call(http.MethodGet), call(http.MethodPost)
	end()
	if got := <-reading; got != "503 Service Unavailable: " {
		t.Errorf("read returned %q", got)
	}
	close(goOn)
	if got := <-writing; got != "200 OK: written" {
		t.Errorf("write returned %q", got)
	}
	must.Succeed(t, <-served)
}

// responseText describes the response to a request.
func responseText(ctx context.Context, method, address string) string {
	r, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.Status + ": " + string(text)
}

// Fault D4: the error about a used address names its flag.
func TestBusyAddressNamesItsFlag(t *testing.T) {
	busy := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")).In(t)
	defer busy.Close()
	o := Options{Address: busy.Addr().String(), Metrics: NewMetrics()}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "serve health and metrics (--address): ") {
		t.Errorf("got %v", err)
	}
}
