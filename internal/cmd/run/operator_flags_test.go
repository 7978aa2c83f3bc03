package run

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

func TestFlagsOfOperators(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Succeed(t, os.WriteFile("op.py", nil, 0o600))
	inCluster := manager.Cluster{Config: &rest.Config{}, InCluster: true}
	for _, c := range []struct {
		args []string
		got  func(o operator.Options, m manager.Options) any
		want string
		note string
	}{
		{args: []string{"--python", "op.py"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.Files }, want: "[op.py]"},
		{args: []string{"--python", "op.py", "-m", "a.b"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.Modules }, want: "[a.b]"},
		{args: []string{"--python=op.py", "--python-interpreter=/py"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.Interpreter }, want: "/py"},
		{args: []string{"--python=op.py", "--name=rates"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.Name }, want: "rates"},
		{args: []string{"--python=op.py", "--context=c", "--kubeconfig=k"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.Kubeconfig }, want: "{k c}"},
		{args: []string{"--operator=http://127.0.0.1:80"}, got: func(o operator.Options, _ manager.Options) any { return o.Remote.URL }, want: "http://127.0.0.1:80"},
		{args: []string{"-n", "a", "-n", "b,c"}, got: func(_ operator.Options, m manager.Options) any { return m.Namespaces }, want: "[a b c]"},
		{args: []string{"-A"}, got: func(_ operator.Options, m manager.Options) any { return m.Namespaces }, want: "[]"},
		{args: []string{"--namespace=a"}, got: func(_ operator.Options, m manager.Options) any { return m.Namespace }, want: "a", note: "--namespace: the namespace of the Lease and of Secrets; -n limits the operator"},
		{args: []string{"--standalone"}, got: func(_ operator.Options, m manager.Options) any { return m.LeaderElection.Enabled }, want: "false"},
		{args: []string{"--peering=team"}, got: func(_ operator.Options, m manager.Options) any {
			return fmt.Sprint(m.LeaderElection.Enabled, m.LeaderElection.Name)
		}, want: "trueteam", note: "--peering: replicas elect a leader by a Lease of this name; peering objects of Kopf are not used"},
		{args: []string{"--dev"}, got: func(operator.Options, manager.Options) any { return "" }, note: "--dev: no effect: a Lease has no priorities; stop the other operator, or limit both with --namespaces"},
		{args: []string{"--priority=5"}, got: func(operator.Options, manager.Options) any { return "" }, note: "--priority: no effect: a Lease has no priorities; stop the other operator, or limit both with --namespaces"},
		{args: []string{"-L", "http://0.0.0.0:8080/healthz"}, got: func(_ operator.Options, m manager.Options) any { return m.HealthAddress + m.HealthPath }, want: "/healthz"},
		{args: []string{"--liveness=http://:8090/live"}, got: func(_ operator.Options, m manager.Options) any { return m.HealthAddress + m.HealthPath }, want: ":8090/live"},
		{args: []string{"--verbose", "--log-format=plain"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.LogFlags }, want: "[--verbose --log-format plain]"},
		{args: []string{"-d", "-v"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.LogFlags }, want: "[--debug]"},
		{args: []string{"-q", "--log-format=text"}, got: func(o operator.Options, _ manager.Options) any { return o.Python.LogFlags }, want: "[--quiet]"},
	} {
		if !slices.ContainsFunc(c.args, func(arg string) bool {
			return strings.HasPrefix(arg, "--python") || strings.HasPrefix(arg, "--operator")
		}) {
			c.args = append(c.args, "--python=op.py")
		}
		f := parsed(t, c.args...)
		o, notes, err := f.operatorOptions(nil)
		must.Succeed(t, err)
		if got := fmt.Sprint(c.got(o, f.options(inCluster))); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
		texts := lists.Map(notes, func(note flagNote) string { return note.flag + ": " + note.text })
		if got := strings.Join(texts, "\n"); got != c.note {
			t.Errorf("%q: note %q, want %q", c.args, got, c.note)
		}
	}
}

func TestFlagsOfOperatorsAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"--python=missing.py":                                              "stat missing.py: no such file or directory",
		"--python=a --operator=http://a":                                   "--operator excludes --python and --module",
		"--operator=http://a --selector=a=b":                               "--selector is for the controllers of the cluster, which do not run beside an operator",
		"--operator=a":                                                     `--operator: "a": want a URL such as http://127.0.0.1:8000 or unix:///run/operator/socket`,
		"--operator=http://a -A -n=b":                                      "--all-namespaces excludes --namespaces",
		"--operator=http://a -q -v":                                        "--quiet excludes --verbose and --debug",
		"--operator=http://a --standalone --peering=b":                     "--standalone excludes --peering and --leader-elect",
		"--operator=http://a --liveness=http://a":                          `--liveness "http://a": want a URL such as http://0.0.0.0:8080/healthz`,
		"--operator=http://a --liveness=http://:80/readyz":                 `--liveness "http://:80/readyz": the path is in use; choose another, such as /healthz`,
		"--operator=http://a --liveness=http://:90/a --health-address=:91": "--liveness excludes --health-address",
	} {
		if _, _, err := parsed(t, strings.Fields(args)...).operatorOptions(nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	f := parsed(t, "--dev")
	if err := f.operator.checkWithout(f.set); err == nil || err.Error() != "--dev requires --python, --module or --operator" {
		t.Error(err)
	}
}
