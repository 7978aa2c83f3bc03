package run

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

// operatorOptions turns the flags into options of the operator.
func (f *runFlags) operatorOptions(files []string) (o operator.Options, notes []flagNote, err error) {
	if notes, err = f.applyOperator(); err != nil {
		return o, nil, err
	}
	if err := f.check(); err != nil {
		return o, nil, err
	}
	if o.Remote = f.operator.Remote; o.Remote.URL != "" {
		return o, notes, o.Remote.Check()
	}
	source, err := f.operator.Parse(files)
	if err != nil {
		return o, nil, err
	}
	source.LogFlags = f.operator.logFlags(f.LogFormat.Given)
	source.Kubeconfig = operator.Kubeconfig{File: f.Kubeconfig, Context: f.Context}
	o.Python = &source
	return o, notes, nil
}

// OperatorOptions returns what the arguments of `setpoint run` say of the operator. Its files are in the folder.
func OperatorOptions(args []string, dir string) (operator.Options, error) {
	f := newRunFlags()
	c := &cobra.Command{Use: "run"}
	f.register(c)
	if err := c.ParseFlags(args); err != nil {
		return operator.Options{}, err
	}
	f.operator.Python = inFolder(dir, f.operator.Python)
	o, _, err := f.operatorOptions(inFolder(dir, c.Flags().Args()))
	return o, err
}

// inFolder returns files that are in a folder with their paths; other arguments are modules.
func inFolder(dir string, args []string) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = arg
		if path := filepath.Join(dir, arg); !filepath.IsAbs(arg) {
			if _, err := os.Stat(path); err == nil {
				all[i] = path
			}
		}
	}
	return all
}

// operatorOnly are the flags that need an operator; notForOperators are those of controllers of
// the cluster.
var (
	operatorOnly = []string{"name", "python-interpreter", "all-namespaces", "liveness", "verbose", "debug", "quiet", "standalone",
		"peering", "priority", "dev", "stop-on-stdin-eof", "operator-token-file"}
	notForOperators = []string{"selector", "crds", "apply-strategy", "field-manager", "deletion-guard", "default-service-account"}
)

// checkWithout rejects flags that need an operator.
func (f *operatorFlags) checkWithout(set *pflag.FlagSet) error {
	if i := slices.IndexFunc(operatorOnly, set.Changed); i >= 0 {
		return fmt.Errorf("--%s requires --python, --module or --operator", operatorOnly[i])
	}
	return nil
}

// applyOperator sets what the flags of Kopf mean in the other flags.
func (f *runFlags) applyOperator() ([]flagNote, error) {
	o := &f.operator
	if err := f.checkOperator(); err != nil {
		return nil, err
	}
	var notes []flagNote
	note := func(flag, text string) { notes = append(notes, flagNote{"--" + flag, text}) }
	if !f.set.Changed("log-level") {
		switch {
		case o.verbose || o.debug:
			f.LogLevel.Value = "debug"
		case o.quiet:
			f.LogLevel.Value = "warn"
		}
	}
	if o.standalone {
		f.LeaderElect.Value = "false"
	}
	if o.peering != "" {
		f.LeaderElect.Value, f.LeaderElection.Name = yes, o.peering
		note("peering", "replicas elect a leader by a Lease of this name; peering objects of Kopf are not used")
	}
	for _, name := range []string{"priority", "dev"} {
		if f.set.Changed(name) {
			note(name, "no effect: a Lease has no priorities; stop the other operator, or limit both with --namespaces")
		}
	}
	if f.set.Changed("namespace") && len(f.Namespaces) == 0 {
		note("namespace", "the namespace of the Lease and of Secrets; -n limits the operator")
	}
	return notes, f.applyLiveness()
}

// checkOperator rejects flags that exclude each other.
func (f *runFlags) checkOperator() error {
	o := &f.operator
	if i := slices.IndexFunc(notForOperators, f.set.Changed); i >= 0 {
		return fmt.Errorf("--%s is for the controllers of the cluster, which do not run beside an operator", notForOperators[i])
	}
	switch {
	case o.Remote.URL != "" && len(o.Python)+len(o.Modules) > 0:
		return errors.New("--operator excludes --python and --module")
	case o.Remote.URL != "" && o.Interpreter+o.Name != "":
		return errors.New("--operator excludes --python-interpreter and --name")
	case o.Remote.TokenFile != "" && o.Remote.URL == "":
		return errors.New("--operator-token-file requires --operator")
	case o.stopOnEOF && o.Remote.URL == "":
		return errors.New("--stop-on-stdin-eof requires --operator")
	case o.Name != "" && len(validation.IsDNS1123Label(o.Name)) > 0:
		return fmt.Errorf("--name %q: %s", o.Name, validation.IsDNS1123Label(o.Name)[0])
	case o.everywhere && len(f.Namespaces) > 0:
		return errors.New("--all-namespaces excludes --namespaces")
	case o.quiet && (o.verbose || o.debug):
		return errors.New("--quiet excludes --verbose and --debug")
	case o.standalone && (o.peering != "" || f.set.Changed("leader-elect")):
		return errors.New("--standalone excludes --peering and --leader-elect")
	case o.peering != "" && f.set.Changed("leader-elect-resource-name"):
		return errors.New("--peering excludes --leader-elect-resource-name")
	}
	return nil
}

// applyLiveness serves health at the URL: at --address if that has its port, else at an address
// of its own.
func (f *runFlags) applyLiveness() error {
	o := &f.operator
	if o.liveness == "" {
		return nil
	}
	parsed, err := url.Parse(o.liveness)
	if err != nil {
		return fmt.Errorf("--liveness: %w", err)
	}
	if parsed.Scheme != "http" || parsed.Port() == "" || !strings.HasPrefix(parsed.Path, "/") || parsed.RawQuery != "" {
		return fmt.Errorf("--liveness %q: want a URL such as http://0.0.0.0:8080/healthz", o.liveness)
	}
	if parsed.Path == "/readyz" || parsed.Path == "/metrics" || strings.ContainsAny(parsed.Path, "{} ") {
		return fmt.Errorf("--liveness %q: the path is in use; choose another, such as /healthz", o.liveness)
	}
	o.healthPath = parsed.Path
	if _, port, err := net.SplitHostPort(f.Address); err == nil && port == parsed.Port() {
		return nil
	}
	if f.Address == flags.AddressAuto && parsed.Port() == "8080" {
		f.Address = parsed.Host
		return nil
	}
	if f.HealthAddress != "" {
		return errors.New("--liveness excludes --health-address")
	}
	f.HealthAddress = parsed.Host
	return nil
}
