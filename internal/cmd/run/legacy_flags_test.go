package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func legacyTable() string {
	var table strings.Builder
	fmt.Fprintln(&table, "| Metacontroller | Setpoint | |\n|---|---|---|")
	for _, name := range []string{"kubeconfig", "workers", "events-qps", "events-burst"} {
		fmt.Fprintf(&table, "| `--%s` | `--%[1]s` | |\n", name)
	}
	fmt.Fprintln(&table, "| `--apply-strategy` | `--apply-strategy` | `dynamic-apply` is `merge`, `server-side-apply` is `server-side`; the old words are understood |")
	for _, old := range legacyFlags() {
		now := "–"
		if old.replacement != "" {
			now = "`--" + old.replacement + "`"
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", old.name, now, old.hint)
	}
	return table.String()
}

// Every flag of the released Metacontroller is understood.
func TestAllMetacontrollerFlagsAreKnown(t *testing.T) {
	set := parsed(t).set
	for _, name := range []string{
		"kubeconfig", "discovery-interval", "cache-flush-interval", "metrics-address", "client-go-qps", "client-go-burst", "workers",
		"events-qps", "events-burst", "pprof-address", "leader-election", "leader-election-resource-lock", "leader-election-namespace",
		"leader-election-id", "health-probe-bind-address", "target-label-selector", "apply-strategy", "apply-strategy-ssa-field-manager",
		"zap-devel", "zap-encoder", "zap-log-level", "zap-stacktrace-level", "zap-time-encoding",
	} {
		if set.Lookup(name) == nil {
			t.Errorf("--%s is not", name)
		}
	}
}

func parsed(t *testing.T, args ...string) *runFlags {
	t.Helper()
	f := newRunFlags()
	c := &cobra.Command{}
	f.register(c)
	must.Succeed(t, c.ParseFlags(args))
	return f
}

func TestMetacontrollerFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		// flag and value are set, note is shown to the user.
		flag, value, note string
	}{
		{args: []string{"--discovery-interval=20s"}, note: "--discovery-interval: not needed: kinds are discovered when a controller or a CRD changes"},
		{args: []string{"--cache-flush-interval=30m"}, flag: "resync-period", value: "30m0s", note: "--cache-flush-interval: --resync-period=30m"},
		{args: []string{"--metrics-address", ":9999"}, flag: "address", value: ":9999", note: "--metrics-address: --address=:9999"},
		{args: []string{"--metrics-address=0"}, flag: "address", value: "", note: "--metrics-address: --address="},
		{args: []string{"--client-go-qps=100"}, flag: "kube-api-qps", value: "100", note: "--client-go-qps: --kube-api-qps=100"},
		{args: []string{"--client-go-burst=200"}, flag: "kube-api-burst", value: "200", note: "--client-go-burst: --kube-api-burst=200"},
		{args: []string{"--pprof-address=:6060"}, flag: "profiling", value: "false", note: "--pprof-address: not supported: --profiling serves profiles at --address"},
		{args: []string{"--leader-election"}, flag: "leader-elect", value: "true", note: "--leader-election: --leader-elect=true"},
		{args: []string{"--leader-election=false"}, flag: "leader-elect", value: "false", note: "--leader-election: --leader-elect=false"},
		{args: []string{"--leader-election-id=metacontroller"}, flag: "leader-elect-resource-name", value: "metacontroller", note: "--leader-election-id: --leader-elect-resource-name=metacontroller"},
		{args: []string{"--health-probe-bind-address=:8081"}, flag: "health-address", value: ":8081", note: "--health-probe-bind-address: --health-address=:8081"},
		{args: []string{"--target-label-selector=a=b"}, flag: "selector", value: "a=b", note: "--target-label-selector: --selector=a=b"},
		{args: []string{"--target-label-selector=a=b", "--selector=c=d"}, flag: "selector", value: "c=d", note: "--target-label-selector: ignored, --selector is set"},
		{args: []string{"--apply-strategy=server-side-apply"}, flag: "apply-strategy", value: "server-side"},
		{args: []string{"--apply-strategy=dynamic-apply"}, flag: "apply-strategy", value: "merge"},
		{args: []string{"--apply-strategy-ssa-field-manager=me"}, flag: "field-manager", value: "me", note: "--apply-strategy-ssa-field-manager: --field-manager=me"},
		{args: []string{"--zap-log-level=5"}, flag: "log-level", value: "info", note: "--zap-log-level: no effect: use --log-level"},
	} {
		f := parsed(t, c.args...)
		notes := must.Get(applyLegacy(f.set)).In(t)
		if c.flag != "" && f.set.Lookup(c.flag).Value.String() != c.value {
			t.Errorf("%q: --%s is %q, want %q", c.args, c.flag, f.set.Lookup(c.flag).Value, c.value)
		}
		received := lists.Map(notes, func(note flagNote) string { return note.flag + ": " + note.text })
		if got := strings.Join(received, "\n"); got != c.note {
			t.Errorf("%q: told %q, want %q", c.args, got, c.note)
		}
	}
}

func TestMetacontrollerFlagsAreChecked(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--client-go-qps=many", `--client-go-qps "many": parse error`},
		{"--leader-election=perhaps", `--leader-election "perhaps": must be one of auto, true, false`},
	} {
		if _, err := applyLegacy(parsed(t, c.arg).set); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.arg, err, c.want)
		}
	}
}

// What a flag says reaches the host: no flag is forgotten on the way.
func TestEveryFlagIsUsed(t *testing.T) {
	values := map[string]string{"crds": "skip", "namespaces": "shop", "dashboard-trusted-proxies": "10.0.0.0/8", "dashboard-hosts": "setpoint.example.org", "leader-elect": "true", "apply-strategy": "server-side", "deletion-guard": "false", "profiling": "true"}
	received := func(args ...string) string {
		o := parsed(t, args...).options(manager.Cluster{Config: &rest.Config{}})
		return fmt.Sprintf("%+v", o)
	}
	elsewhere := append([]string{"kubeconfig", "context", "log-format", "log-level", "trace-annotations", "help", "python", "module", "operator"}, operatorOnly...)
	parsed(t).set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || slices.Contains(elsewhere, f.Name) {
			return
		}
		value := values[f.Name]
		switch f.Value.Type() {
		case "string":
			value = "something"
		case "int", "uint", "float32", "float64":
			value = "7"
		case "duration":
			value = "7m"
		}
		if received("--"+f.Name+"="+value) == received() {
			t.Errorf("--%s=%s changes nothing", f.Name, value)
		}
	})
}

func TestLeaderElectionDefaultInCluster(t *testing.T) {
	for _, c := range []struct {
		args   []string
		inside bool
		want   bool
	}{
		{nil, true, true},
		{nil, false, false},
		{[]string{"--leader-elect=false"}, true, false},
		{[]string{"--leader-elect"}, false, true},
	} {
		o := parsed(t, c.args...).options(manager.Cluster{Config: &rest.Config{}, InCluster: c.inside})
		if o.LeaderElection.Enabled != c.want {
			t.Errorf("%q, inside %v: %v", c.args, c.inside, o.LeaderElection.Enabled)
		}
	}
}

// Fault U11: the value of --leader-elect may stand apart, as help shows it.
func TestLeaderElectSeparateValue(t *testing.T) {
	for _, c := range []struct {
		args  []string
		value string
		left  int
	}{
		{[]string{"--leader-elect", "false"}, "false", 0},
		{[]string{"--leader-elect", "auto"}, "auto", 0},
		{[]string{"--leader-elect", "maybe"}, "true", 1},
		{[]string{"--leader-elect=false", "true"}, "false", 1},
		{[]string{"false"}, "auto", 1},
	} {
		f := parsed(t, c.args...)
		if left := f.splitElectArg(f.set.Args()); len(left) != c.left || f.LeaderElect.Value != c.value {
			t.Errorf("%q: %s, and %q is left", c.args, f.LeaderElect.Value, left)
		}
	}
}

func TestNamespaceOfThePod(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "mine")
	if o := parsed(t).options(manager.Cluster{Config: &rest.Config{}}); o.Namespace != "mine" {
		t.Error(o.Namespace)
	}
	if o := parsed(t, "--namespace=other").options(manager.Cluster{Config: &rest.Config{}}); o.Namespace != "other" {
		t.Error(o.Namespace)
	}
}
