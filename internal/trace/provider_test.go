package trace_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// process is a process with traces, and what it logs and counts.
type process struct {
	tracer *trace.Tracer
	stop   func()

	mu      sync.Mutex
	dropped map[string]int
	log     bytes.Buffer
}

func (p *process) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(line)
}

func (p *process) logged(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(p.log.String(), text)
}

func startProcess(t *testing.T, endpoint string) *process {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=web,service.version=2")
	config, err := trace.FromEnvironment()
	must.Succeed(t, err)
	p := &process{dropped: map[string]int{}}
	p.tracer, p.stop, err = config.Start(t.Context(), trace.Process{Service: "setpoint", Version: "1", Log: slog.New(slog.NewTextHandler(p, nil)), Dropped: func(reason string, spans int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dropped[reason] += spans
	}})
	must.Succeed(t, err)
	return p
}

// reconcile runs so many reconciles, and returns the longest.
func (p *process) reconcile(t *testing.T, n int) (longest time.Duration) {
	for range n {
		began := time.Now()
		_, run := p.tracer.StartRun(t.Context(), &trace.Run{Controller: "teams", Object: trace.Object{Kind: "Team", Name: "red"}})
		run.EndRun("synced", false, nil)
		longest = max(longest, time.Since(began))
	}
	return longest
}

func TestSpansReachTheCollector(t *testing.T) {
	received := make(chan *collector.ExportTraceServiceRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := &collector.ExportTraceServiceRequest{}
		if err := proto.Unmarshal(body, request); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Authorization") != "Bearer abc" {
			t.Errorf("POST %s with %v: %v", r.URL.Path, r.Header, err)
		}
		received <- request
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
	p := startProcess(t, server.URL)
	p.reconcile(t, 3)
	p.stop() // What is left is sent at the end.
	request := <-received
	attributes := map[string]string{}
	for _, a := range request.GetResourceSpans()[0].GetResource().GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	if attributes["service.name"] != "setpoint" || attributes["service.version"] != "2" || attributes["team"] != "web" {
		t.Errorf("the attributes of the process are %v", attributes)
	}
	if spans := request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans(); len(spans) != 3 || len(p.dropped) > 0 {
		t.Errorf("%d spans arrived, and %v were dropped", len(spans), p.dropped)
	}
}

func TestCollectorThatRefuses(t *testing.T) {
	for name, endpoint := range map[string]string{
		"no connection": "http://127.0.0.1:1",
		"status 400":    statusServer(t, http.StatusBadRequest),
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, endpoint)
			const spans = 2000
			p.reconcile(t, spans)
			p.stop()
			if p.dropped[trace.DroppedNotExported] != spans {
				t.Errorf("dropped are %v", p.dropped)
			}
			if p.logged("traces are not sent") != 1 {
				t.Errorf("the log is\n%s", &p.log)
			}
		})
	}
}

func TestLogOfCollectorThatRecovers(t *testing.T) {
	var works atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<html>\n\x1b[31m"+strings.Repeat("wrong ", 20_000))
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	p := startProcess(t, server.URL)
	if p.logged("sends traces") != 1 || p.logged("traces are sent") != 0 {
		t.Errorf("before the first export, the log is\n%s", &p.log)
	}
	p.reconcileUntilLogged(t, "traces are not sent")
	works.Store(true)
	p.reconcileUntilLogged(t, "traces are sent")
	p.stop()
	// The text handler escapes the backslashes of the escapes.
	if p.logged(`<html>\\n\\x1b[31mwrong`) != 1 || p.logged("traces are sent") != 1 || p.log.Len() > 1500 {
		t.Errorf("%d bytes of log:\n%.3000s", p.log.Len(), &p.log)
	}
}

func (p *process) reconcileUntilLogged(t *testing.T, text string) {
	t.Helper()
	poll, timeout := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer poll.Stop()
	for p.logged(text) == 0 {
		p.reconcile(t, 1)
		select {
		case <-poll.C:
		case <-timeout:
			t.Fatalf("no %q in the log", text)
		}
	}
}

func statusServer(t *testing.T, code int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestCollectorThatHangs(t *testing.T) {
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hung)
	p := startProcess(t, server.URL)
	const spans = 20_000
	if longest := p.reconcile(t, spans); longest > 5*time.Second {
		t.Errorf("a reconcile took %s", longest)
	}
	began := time.Now()
	p.stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the end took %s", took)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost := p.dropped[trace.DroppedQueueFull] + p.dropped[trace.DroppedNotExported]; lost != spans || p.dropped[trace.DroppedQueueFull] == 0 {
		t.Errorf("dropped are %v of %d", p.dropped, spans)
	}
	if text := p.log.String(); strings.Count(text, "spans are dropped") != 1 || strings.Count(text, "traces are not sent") != 1 {
		t.Errorf("the log is\n%s", text)
	}
}

func TestFromEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		environment string
		on          bool
		err         string
	}{
		{"", false, ""},
		{endpoint + "=http://c:4318", true, ""},
		{endpoint + "=https://c/otlp/", true, ""},
		{endpoint + "=http://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/in", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none " + endpoint + "=http://c", false, ""},
		{"OTEL_SDK_DISABLED=true " + endpoint + "=nonsense", false, ""},
		{"OTEL_SERVICE_NAME=x", false, ""},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.1 " + endpoint + "=http://c", true, ""},
		{"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x,b=c " + endpoint + "=http://c", true, ""},
		{endpoint + "=\u00a0http://c:4318\u00a0", true, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf " + endpoint + "=http://c", true, ""},

		{"OTEL_TRACES_EXPORTER=jaeger", false, `$OTEL_TRACES_EXPORTER must be otlp or none, not "jaeger"`},
		{endpoint + "=c:4318", false, `$OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as http://collector:4318`},
		{endpoint + "=http://u:hunter2@c:no", false, `$OTEL_EXPORTER_OTLP_ENDPOINT must be a URL`},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc " + endpoint + "=http://c:4317", false, `$OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be http/protobuf, not "grpc": a collector receives it at port 4318`},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=b,hunter2 " + endpoint + "=http://c", false, `$OTEL_EXPORTER_OTLP_HEADERS: item 2 is not name=value`},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization:hunter2== " + endpoint + "=http://c", false, `$OTEL_EXPORTER_OTLP_TRACES_HEADERS: item 1 is not name=value`},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=hunter2% " + endpoint + "=http://c", false, `$OTEL_EXPORTER_OTLP_HEADERS: item 1 is not name=value`},
	} {
		t.Run(c.environment, func(t *testing.T) {
			for _, variable := range os.Environ() {
				if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
					t.Setenv(name, "")
				}
			}
			for variable := range strings.SplitSeq(c.environment, " ") {
				if name, value, found := strings.Cut(variable, "="); found {
					t.Setenv(name, value)
				}
			}
			config, err := trace.FromEnvironment()
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error is %v", err)
				}
			case err != nil:
				t.Error(err)
			case (config != nil) != c.on:
				t.Errorf("the configuration is %+v", config)
			}
		})
	}
}
