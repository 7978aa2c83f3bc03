package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// probe returns the status and the body of a path of a program.
func probe(t *testing.T, app *App, path string) (int, string) {
	t.Helper()
	o := app.complete(manager.Options{}, false)
	options := serving.Options{Metrics: o.Metrics, Healthy: o.Health, Unready: o.Unready}
	response := httptest.NewRecorder()
	options.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	body := must.Get(io.ReadAll(response.Result().Body)).In(t)
	return response.Code, string(body)
}

func TestChecks(t *testing.T) {
	app := NewApp("app")
	var down error
	app.AddHealthCheck("database", func(context.Context) error { return down })
	app.AddReadyCheck("cache", func(context.Context) error { return errors.New("is cold") })
	app.AddReadyCheck("broken", func(context.Context) error { panic("oh") })
	if code, body := probe(t, app, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthy: got %d %q", code, body)
	}
	down = errors.New("connection refused")
	if code, body := probe(t, app, "/healthz"); code != http.StatusServiceUnavailable || body != "check database: connection refused\n" {
		t.Errorf("unhealthy: got %d %q", code, body)
	}
	if code, body := probe(t, app, "/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "check cache: is cold\ncheck broken: the check panicked: oh") {
		t.Errorf("not ready: got %d %q", code, body)
	}
}

// A check that ignores its context fails the probe, and is called once.
func TestCheckThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, calls, end := NewApp("app"), 0, make(chan struct{})
		app.AddHealthCheck("stuck", func(context.Context) error {
			calls++
			<-end
			return nil
		})
		for range 2 {
			if code, body := probe(t, app, "/healthz"); code != http.StatusServiceUnavailable || body != "check stuck: did not return within 5s\n" {
				t.Errorf("got %d %q", code, body)
			}
		}
		close(end)
		synctest.Wait()
		if code, _ := probe(t, app, "/healthz"); code != http.StatusOK || calls != 2 {
			t.Errorf("after it returned: got %d after %d calls", code, calls)
		}
	})
}

func TestMetricsOfAProgram(t *testing.T) {
	app := NewApp("app")
	published := prometheus.NewCounter(prometheus.CounterOpts{Name: "rates_published_total", Help: "Published rates."})
	app.Metrics().MustRegister(published)
	published.Inc()
	code, body := probe(t, app, "/metrics")
	for _, want := range []string{"\nrates_published_total 1\n", "\ngo_goroutines "} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("got %d, without %q:\n%s", code, want, body)
		}
	}
}
