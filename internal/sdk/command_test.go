package sdk

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/must"
	tracing "github.com/setpoint-dev/setpoint/internal/trace"
)

// withoutCluster has a program find no cluster.
func withoutCluster(t *testing.T) {
	t.Helper()
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "POD_NAMESPACE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
}

func TestCommandLine(t *testing.T) {
	withoutCluster(t)
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
		handlers       bool
	}{
		"help":             {[]string{"--help"}, 0, "--leader-elect", "", true},
		"help of rbac":     {[]string{"rbac", "-h"}, 0, "-service-account", "", true},
		"the command help": {[]string{"help"}, 0, "Exit codes: 0 success, 1 failure, 2 wrong usage.", "", true},
		"a wrong format":   {[]string{"--log-format=xml"}, 2, "", "must be one of text, json", true},
		"no cluster":       {nil, 1, "", "no cluster is configured; name one with a kubeconfig", true},
		"no such file":     {[]string{"--kubeconfig=none"}, 1, "", "read kubeconfig", true},
		"no handlers":      {nil, 1, "", "app/configmap: register a handler", false},
		"rbac":             {[]string{"rbac", "--namespace=home", "--service-account=me"}, 0, "kind: ClusterRoleBinding", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			app := NewApp("app")
			maps := NewHandlers(app, reflect.TypeFor[corev1.ConfigMap]())
			if c.handlers {
				maps.AddHandler("handle").AddReason(hook.ReasonCreate)
			}
			var stdout, stderr bytes.Buffer
			if code := runCommandLine(t, app, c.args, &stdout, &stderr); code != c.code {
				t.Errorf("ends with %d, want %d", code, c.code)
			}
			for _, one := range []struct{ name, got, want string }{{"stdout", stdout.String(), c.stdout}, {"stderr", stderr.String(), c.stderr}} {
				if one.want == "" && one.got != "" || !strings.Contains(one.got, strings.Replace(one.want, "--leader", "-leader", 1)) {
					t.Errorf("%s: got %q, want %q", one.name, one.got, one.want)
				}
			}
		})
	}
}

// runCommandLine is what the command line does, and ends with.
func runCommandLine(t *testing.T, app *App, args []string, stdout, stderr *bytes.Buffer) int {
	t.Helper()
	fn, err := NewCommandLine(app).parse(args, stdout)
	if err == nil {
		err = fn(t.Context(), stdout, stderr)
	}
	return exitCode(err, stderr)
}

func TestFlagsBecomeOptions(t *testing.T) {
	withoutCluster(t)
	var f runFlags
	args := strings.Fields("--namespaces=a,b --namespace=home --leader-elect --leader-elect-resource-name=x --workers=4 --kube-api-qps=5 --address= --log-level=debug")
	must.Succeed(t, f.parse(NewCommandLine(NewApp("app")), args, nil))
	o := must.Get(f.options(&bytes.Buffer{})).In(t)
	if strings.Join(o.Namespaces, "+") != "a+b" || o.Namespace != "home" || !o.LeaderElection.Enabled || o.LeaderElection.Name != "x" ||
		o.Workers != 4 || o.ClientQPS != 5 || o.Address != "" || !o.Log.Enabled(t.Context(), -4) {
		t.Errorf("got %+v", o)
	}
}

// lineWithFlags is the command line of a program with a flag of its own.
func lineWithFlags() (*CommandLine, *time.Duration) {
	line := NewCommandLine(NewApp("rates"))
	return line, line.Flags().Duration("every", time.Hour, "how often")
}

func TestFlagsOfTheProgramsOwn(t *testing.T) {
	for _, args := range [][]string{{"--every=5s"}, {"--workers", "3", "--every", "5s"}, {"run", "--every=5s"}, {"rbac", "--every=5s"}} {
		line, every := lineWithFlags()
		if _, err := line.parse(args, nil); err != nil || *every != 5*time.Second {
			t.Errorf("%v: every %s, %v", args, *every, err)
		}
	}
	line, _ := lineWithFlags()
	var help bytes.Buffer
	if _, err := line.parse([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-every duration\n    \thow often (default 1h0m0s)") {
		t.Errorf("help: %v\n%s", err, &help)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"dance"}, exitUsage, `unknown command "dance"`},
		{[]string{"run", "fast"}, exitUsage, `unexpected argument "fast"`},
		{[]string{"--every=soon"}, exitUsage, `invalid value "soon"`},
		{[]string{"--unknown"}, exitUsage, "not defined: -unknown"},
		{[]string{"--log-level=loud"}, exitUsage, "must be one of info, debug, warn, error"},
		{[]string{"--leader-elect=maybe"}, exitUsage, "must be one of auto, true, false"},
		{[]string{"--workers=0"}, exitUsage, "--workers must be at least 1"},
		{[]string{"rbac"}, exitFailure, "the app has no controllers"},
	} {
		line, _ := lineWithFlags()
		var stderr bytes.Buffer
		command, err := line.parse(c.args, nil)
		if err == nil {
			err = command(context.Background(), nil, &stderr)
		}
		if code := exitCode(err, &stderr); code != c.want || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: ends with %d: %s", c.args, code, &stderr)
		}
	}
	line, _ := lineWithFlags()
	line.Flags().Int("workers", 1, "mine")
	if _, err := line.parse(nil, nil); err == nil || !strings.Contains(err.Error(), "conflict with those of the app: --workers") {
		t.Errorf("a flag that is taken: %v", err)
	}
}

func TestWhereSpansGo(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	own := noop.NewTracerProvider()
	given, err := tracesOf(&tracing.Config{Provider: own, Annotate: true})
	if err != nil || given.Provider != own || !given.Annotate {
		t.Errorf("the provider of the program: %+v, %v", given, err)
	}
	sent, err := tracesOf(&tracing.Config{Annotate: true})
	if err != nil || !sent.Annotate {
		t.Errorf("the environment: %+v, %v", sent, err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	if _, err := tracesOf(&tracing.Config{}); err == nil || !strings.Contains(err.Error(), "$OTEL_TRACES_EXPORTER") {
		t.Errorf("a wrong variable: %v", err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if none, err := tracesOf(&tracing.Config{}); err != nil || none != nil {
		t.Errorf("off: %+v, %v", none, err)
	}
}

func TestStartAndStop(t *testing.T) {
	app := NewApp("app")
	var done []string
	app.OnStart(func(context.Context) error { done = append(done, "start"); return nil })
	app.OnStop(func(ctx context.Context) error { done = append(done, "stop"); return ctx.Err() })
	ctx, cancel := context.WithCancel(t.Context())
	err := app.runLifecycle(ctx, func() error { done = append(done, "work"); cancel(); return nil })
	if got := strings.Join(done, " "); got != "start work stop" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	broken := errors.New("broken")
	app.OnStart(func(context.Context) error { return broken })
	if err := app.runLifecycle(t.Context(), func() error { t.Error("works"); return nil }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// What is at work is known by name.
func TestInFlightCalls(t *testing.T) {
	app := NewApp("app")
	pods := NewHandlers(app, reflect.TypeFor[corev1.Pod]())
	begun, end := make(chan bool), make(chan bool)
	linger := pods.AddHandler("linger")
	linger.AddReason(hook.ReasonCreate)
	linger.Once = func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		c := NewInvocation(&pods.Controller, "linger")
		c.Metadata, _ = readMetadata(n.Object)
		return nil, c.Invoke(ctx, "handler", "linger", func() error {
			begun <- true
			<-end
			return nil
		})
	}
	h := must.Get(app.Handler("linger")).In(t)
	done := make(chan error)
	ctx, output := call.WithOutput(t.Context())
	go func() {
		_, err := h.Handle(ctx, &hook.HandlerRequest{Object: pod(t, "one").JSON(), Namespace: "shop", Name: "one"})
		done <- err
	}()
	<-begun
	if got := app.calls.names(); !slices.Equal(got, []string{"handler linger of Pod shop/one"}) {
		t.Errorf("got %q", got)
	}
	if code := output.Code(); code.Digest == "" || code.Since.IsZero() {
		t.Errorf("the code of the program is %+v", code)
	}
	close(end)
	if err := <-done; err != nil || len(app.calls.names()) != 0 {
		t.Errorf("got %v, and %q is at work", err, app.calls.names())
	}
}
