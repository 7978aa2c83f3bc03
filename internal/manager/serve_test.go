package manager

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard"
	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
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
			t.Errorf("%d bytes of headers: status %d", size, response.StatusCode)
		}
	}
	if server.Config.IdleTimeout == 0 {
		t.Error("no idle timeout")
	}
}

// blockingSource blocks until its context ends, and reports each request.
type blockingSource struct {
	model.Source
	begun chan<- string
}

func (blockingSource) Name() string { return "setpoint" }

func (a blockingSource) Process(ctx context.Context) (model.Process, error) {
	a.begun <- http.MethodGet
	<-ctx.Done()
	return model.Process{}, ctx.Err()
}

// dashboardOf returns a dashboard of one process.
func dashboardOf(t *testing.T, process model.Source) http.Handler {
	t.Helper()
	api, err := userclient.New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	dashboardServer, err := dashboard.New(dashboard.Options{
		Cluster: api, Access: access.Options{Open: true}, Sources: func(context.Context) []model.Source { return []model.Source{process} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return dashboardServer
}

// When the process ends, reads are canceled and writes may finish.
func TestWritesFinishOnShutdown(t *testing.T) {
	begun, goOn := make(chan string), make(chan struct{})
	dashboardServer := dashboardOf(t, blockingSource{begun: begun})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			dashboardServer.ServeHTTP(w, r)
			return
		}
		begun <- r.Method
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
	go func() { served <- (&Manager{}).serve(ctx, httpEndpoint{listener, handler}) }()
	call := func(method string) chan string {
		response := make(chan string, 1)
		go func() { response <- responseText(t.Context(), method, "http://"+listener.Addr().String()) }()
		<-begun
		return response
	}
	reading, writing := call(http.MethodGet), call(http.MethodPost)
	end()
	if got := <-reading; !strings.HasPrefix(got, "503 Service Unavailable, again in 3: ") || !strings.Contains(got, "comes back by itself") {
		t.Errorf("read returned %q", got)
	}
	close(goOn)
	if got := <-writing; got != "200 OK, again in : written" {
		t.Errorf("write returned %q", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
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
	return response.Status + ", again in " + response.Header.Get("Retry-After") + ": " + string(text)
}

// Fault D4: the error about a used address names its flag.
func TestBusyAddressNamesItsFlag(t *testing.T) {
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	m := &Manager{options: Options{Address: busy.Addr().String()}}
	if _, err := m.listen(t.Context()); err == nil || !strings.Contains(err.Error(), "serve health and metrics (--address): ") {
		t.Errorf("got %v", err)
	}
}
