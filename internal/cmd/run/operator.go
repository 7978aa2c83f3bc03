package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/operators"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/memory"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

// runOperator runs the controllers that an operator declares until a signal.
func runOperator(ctx context.Context, p *command.Invocation, f *runFlags, files []string) error {
	options, notes, err := f.operatorOptions(files)
	if err != nil {
		return command.UsageError(err)
	}
	options.Log = flags.NewLog(p.Stderr, f.LogFormat.Value, f.LogLevel.Value)
	if f.operator.verbose && !f.operator.debug {
		flags.LimitLibraries(p.Stderr, f.LogFormat.Value, "info")
	}
	for _, note := range notes {
		options.Log.Warn(note.text, "flag", note.flag) //nolint:sloglint // One constant message for each flag.
	}
	cluster, err := client.ClusterFlags{Kubeconfig: f.Kubeconfig, Context: f.Context}.FindConfigured()
	if err != nil {
		return err
	}
	options.Config = cluster.Config
	if options.Python != nil {
		options.Python.Stdout, options.Python.Stderr = p.Stdout, p.Stderr
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if f.operator.stopOnEOF {
		ctx = untilEOF(ctx, p.Stdin, options.Log)
	}
	go memory.Tune(ctx)
	began := time.Now()
	op, err := operator.Open(ctx, options)
	if err != nil {
		return notOpened(ctx, p, err)
	}
	defer op.Close()
	managed := f.options(cluster)
	managed.Log, managed.Admission = options.Log, f.Admission.WithClusterDefaults(cluster.InCluster, op.Name)
	op.Configure(&managed)
	h, err := manager.New(managed)
	if err != nil {
		return err
	}
	go logReady(ctx, h.Ready(), options.Log.With("operator", op.Name), began)
	return op.Run(ctx, h.Run)
}

// untilEOF returns a context that ends with the input.
func untilEOF(ctx context.Context, input io.Reader, log *slog.Logger) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input) // An error ends it too.
		log.Info("standard input ended; stopping")
		cancel()
	}()
	return ctx
}

// notOpened returns the error of an operator that did not declare its controllers; nil after a
// signal.
func notOpened(ctx context.Context, p *command.Invocation, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The user has ended it.
	}
	if errors.Is(err, operator.ErrImport) {
		p.Code = operator.ImportCode
	}
	return err
}

// operatorOptions turns the flags into options of the operator.
func (f *runFlags) operatorOptions(files []string) (o operator.Options, notes []flagNote, err error) {
	if notes, err = f.operator.apply(f); err != nil {
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

// operatorFlags are the flags of `setpoint run` for operators in Python and other processes
// that declare their controllers. Most are those of `kopf run`.
type operatorFlags struct {
	operators.Source
	everywhere      bool
	liveness        string
	verbose, debug  bool
	quiet           bool
	standalone, dev bool
	peering         string
	priority        int
	// healthPath is the path of --liveness.
	healthPath string
	// stopOnEOF stops when standard input ends.
	stopOnEOF bool
}

func (f *operatorFlags) register(c *cobra.Command) {
	f.Register(c.Flags())
	set := c.Flags()
	set.StringVar(&f.Name, "name", "", "with --python: `name` of the operator, for its records and finalizers on objects and its Lease "+
		"(default: that of the first file)")
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "with an operator: all namespaces, the default; excludes --namespaces")
	set.StringVarP(&f.liveness, "liveness", "L", "", "with an operator: `URL` to serve its health at, such as http://0.0.0.0:8080/healthz")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "with an operator: --log-level=debug, also for its own logs")
	set.BoolVarP(&f.debug, "debug", "d", false, "with an operator: --verbose, and logs of libraries")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "with an operator: --log-level=warn, also for its own logs")
	set.BoolVar(&f.stopOnEOF, "stop-on-stdin-eof", false, "with --operator: stop when standard input ends, such as a pipe from the "+
		"program that started Setpoint, however that ends")
	set.BoolVar(&f.standalone, "standalone", false, "with an operator: --leader-elect=false")
	set.StringVarP(&f.peering, "peering", "P", "", "with an operator: elect a leader by the Lease of this `name`")
	set.IntVarP(&f.priority, "priority", "p", 0, "with an operator: no effect; a Lease has no priorities")
	set.BoolVar(&f.dev, "dev", false, "with an operator: no effect; a Lease has no priorities")
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

// apply sets what the flags of Kopf mean in the other flags.
func (f *operatorFlags) apply(run *runFlags) ([]flagNote, error) {
	if err := f.check(run); err != nil {
		return nil, err
	}
	var notes []flagNote
	note := func(flag, text string) { notes = append(notes, flagNote{"--" + flag, text}) }
	if !run.set.Changed("log-level") {
		switch {
		case f.verbose || f.debug:
			run.LogLevel.Value = "debug"
		case f.quiet:
			run.LogLevel.Value = "warn"
		}
	}
	if f.standalone {
		run.LeaderElect.Value = "false"
	}
	if f.peering != "" {
		run.LeaderElect.Value, run.LeaderElection.Name = yes, f.peering
		note("peering", "replicas elect a leader by a Lease of this name; peering objects of Kopf are not used")
	}
	for _, name := range []string{"priority", "dev"} {
		if run.set.Changed(name) {
			note(name, "no effect: a Lease has no priorities; stop the other operator, or limit both with --namespaces")
		}
	}
	if run.set.Changed("namespace") && len(run.Namespaces) == 0 {
		note("namespace", "the namespace of the Lease and of Secrets; -n limits the operator")
	}
	return notes, f.applyLiveness(run)
}

// check rejects flags that exclude each other.
func (f *operatorFlags) check(run *runFlags) error {
	if i := slices.IndexFunc(notForOperators, run.set.Changed); i >= 0 {
		return fmt.Errorf("--%s is for the controllers of the cluster, which do not run beside an operator", notForOperators[i])
	}
	switch {
	case f.Remote.URL != "" && len(f.Python)+len(f.Modules) > 0:
		return errors.New("--operator excludes --python and --module")
	case f.Remote.URL != "" && f.Interpreter+f.Name != "":
		return errors.New("--operator excludes --python-interpreter and --name")
	case f.Remote.TokenFile != "" && f.Remote.URL == "":
		return errors.New("--operator-token-file requires --operator")
	case f.stopOnEOF && f.Remote.URL == "":
		return errors.New("--stop-on-stdin-eof requires --operator")
	case f.Name != "" && len(validation.IsDNS1123Label(f.Name)) > 0:
		return fmt.Errorf("--name %q: %s", f.Name, validation.IsDNS1123Label(f.Name)[0])
	case f.everywhere && len(run.Namespaces) > 0:
		return errors.New("--all-namespaces excludes --namespaces")
	case f.quiet && (f.verbose || f.debug):
		return errors.New("--quiet excludes --verbose and --debug")
	case f.standalone && (f.peering != "" || run.set.Changed("leader-elect")):
		return errors.New("--standalone excludes --peering and --leader-elect")
	case f.peering != "" && run.set.Changed("leader-elect-resource-name"):
		return errors.New("--peering excludes --leader-elect-resource-name")
	}
	return nil
}

// applyLiveness serves health at the URL: at --address if that has its port, else at an address
// of its own.
func (f *operatorFlags) applyLiveness(run *runFlags) error {
	if f.liveness == "" {
		return nil
	}
	parsed, err := url.Parse(f.liveness)
	if err != nil {
		return fmt.Errorf("--liveness: %w", err)
	}
	if parsed.Scheme != "http" || parsed.Port() == "" || !strings.HasPrefix(parsed.Path, "/") || parsed.RawQuery != "" {
		return fmt.Errorf("--liveness %q: want a URL such as http://0.0.0.0:8080/healthz", f.liveness)
	}
	if parsed.Path == "/readyz" || parsed.Path == "/metrics" || strings.ContainsAny(parsed.Path, "{} ") {
		return fmt.Errorf("--liveness %q: the path is in use; choose another, such as /healthz", f.liveness)
	}
	f.healthPath = parsed.Path
	if _, port, err := net.SplitHostPort(run.Address); err == nil && port == parsed.Port() {
		return nil
	}
	if run.Address == flags.AddressAuto && parsed.Port() == "8080" {
		run.Address = parsed.Host
		return nil
	}
	if run.HealthAddress != "" {
		return errors.New("--liveness excludes --health-address")
	}
	run.HealthAddress = parsed.Host
	return nil
}

// logFlags returns the flags of the process of the operator.
func (f *operatorFlags) logFlags(format string) []string {
	var all []string
	switch {
	case f.debug:
		all = append(all, "--debug")
	case f.verbose:
		all = append(all, "--verbose")
	case f.quiet:
		all = append(all, "--quiet")
	}
	switch format {
	case "full", "plain", "json":
		all = append(all, "--log-format", format)
	}
	return all
}
