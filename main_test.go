package setpoint

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
			app := New("app")
			maps := For[corev1.ConfigMap](app)
			if c.handlers {
				maps.OnCreate("handle", handleMap)
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
	fn, err := app.parseCommand(args, stdout)
	if err == nil {
		err = fn(t.Context(), stdout, stderr)
	}
	return exitCode(err, stderr)
}

func TestFlagsBecomeOptions(t *testing.T) {
	withoutCluster(t)
	var f runFlags
	args := strings.Fields("--namespaces=a,b --namespace=home --leader-elect --leader-elect-resource-name=x --workers=4 --kube-api-qps=5 --address= --log-level=debug")
	if err := f.parse(New("app"), args, nil); err != nil {
		t.Fatal(err)
	}
	o, err := f.options(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(o.Namespaces, "+") != "a+b" || o.Namespace != "home" || !o.LeaderElection.Enabled || o.LeaderElection.Name != "x" ||
		o.Workers != 4 || o.ClientQPS != 5 || o.Address != "" || !o.Log.Enabled(t.Context(), -4) {
		t.Errorf("got %+v", o)
	}
}

func TestRBACIsMinimal(t *testing.T) {
	app := New("app")
	maps := For[corev1.ConfigMap](app)
	maps.OnCreate("handle", handleMap)
	maps.Deletes(&corev1.Pod{})
	pods := For[corev1.Pod](app)
	NewIndex(pods, secretsOf)
	text, err := app.RBAC(t.Context(), "me", Options{Namespace: "home", Namespaces: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `kind: Role
metadata:
  name: app
  namespace: a
rules:
  # app/configmap: handled objects
  - {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, patch]}
  # app/configmap: events
  - {apiGroups: [""], resources: [events], verbs: [create, patch]}
  # app/configmap: writes of handlers; app/pod: handled objects
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch, delete]}
`
	if !strings.Contains(string(text), want) {
		t.Errorf("got\n%s\nwant in it\n%s", text, want)
	}
}

func TestStartAndStop(t *testing.T) {
	app := New("app")
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
