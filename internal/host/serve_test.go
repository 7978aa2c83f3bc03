package host

import (
	"context"
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

// When the process ends, who reads is sent away at once, and who writes may finish.
func TestWritesFinishWhenTheProcessEnds(t *testing.T) {
	begun, goOn := make(chan string), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- r.Method
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		select {
		case <-goOn:
			_, _ = io.WriteString(w, "written")
		case <-r.Context().Done():
		}
	})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&Host{}).serve(ctx, door{listener, handler}) }()
	ask := func(method string) chan string {
		answer := make(chan string, 1)
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String(), http.NoBody)
			if err != nil {
				answer <- err.Error()
				return
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			answer <- string(text)
		}()
		<-begun
		return answer
	}
	reading, writing := ask(http.MethodGet), ask(http.MethodPost)
	end()
	if got := <-reading; got != "" {
		t.Errorf("who reads is told %q", got)
	}
	close(goOn)
	if got := <-writing; got != "written" {
		t.Errorf("who writes is told %q", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
