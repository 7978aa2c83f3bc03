// Package plan is `setpoint plan`: the dry run of a controller.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/cli/operators"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// codeChanges is the exit code if there are changes.
const codeChanges = 2

// planFlags are the flags of `setpoint plan`.
type planFlags struct {
	cluster      client.ClusterFlags
	files        []string
	namespace    string
	all          bool
	everywhere   bool
	hooks        []string
	callsOnly    bool
	apply        *flags.Choice
	fieldManager string
	processes    hooks.Processes
	timeout      time.Duration
	operator     operators.Source
	output.PrintFlags
}

// Command returns `setpoint plan`.
func Command(p *command.Invocation) *cobra.Command {
	f := &planFlags{PrintFlags: output.NewTextFlags(), apply: hooks.NewApplyStrategy()}
	c := &cobra.Command{
		Use:   "plan [CONTROLLER] [OBJECT…]",
		Short: "Show what a controller would change (dry run)",
		Long: `Call the hooks of a controller for objects, and show what would be created, changed and
deleted, and the resulting status. Nothing is written: the writes go to the API server as
dry runs, so that defaults and admission apply. The hooks are called for real.

For a HandlerController the plan shows which handlers would be called, and what their
responses would write. The handlers are called with dryRun: true; --calls-only does not
call them.

CONTROLLER is a controller of the cluster, such as compositecontroller.setpoint.dev/NAME
or decoratorcontroller.metacontroller.k8s.io/NAME, or its NAME if that is unambiguous,
or is in a file. OBJECT is the name of
an object that the controller manages, or KIND/NAME. Other objects in the files are
treated as applied.

` + client.KindHelp + `

--python plans the controllers of an operator in Python, and each argument is an OBJECT. Its
files are imported, but no function is called, also none of the startup: the plan shows which
would be. --operator calls a process that runs already.

A hook behind a Service of the cluster is not reachable from outside. --hook, or
$SETPOINT_HOOKS separated by commas, sets an address to reach it, or another version of
it. Processes of 'setpoint dev' are found by the kubeconfig that it writes.

Exit codes: 0 no changes, 1 failure, 2 there are changes.`,
		Example: `  setpoint plan compositecontroller.setpoint.dev/teams red  # one object
  setpoint plan teams -A                                    # all objects
  setpoint plan -f controller.yaml --all -n shop            # with a changed controller
  setpoint plan -f controller.yaml -f example.yaml          # before anything is applied
  setpoint plan spcc/teams red --hook localhost:8080        # with another hook
  setpoint plan --python operator.py -A                     # an operator in Python
  setpoint plan handlercontroller.setpoint.dev/rates -A --calls-only
  setpoint plan spcc/teams -A -o json | jq .summary`,
		Annotations:       map[string]string{command.UsageIsAFailure: "1"},
		ValidArgsFunction: client.Complete(&f.cluster, &f.namespace, completePlan),
		RunE:              func(c *cobra.Command, args []string) error { return run(p, c, f, args) },
	}
	f.register(c)
	return c
}

func (f *planFlags) register(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.Register(c)
	set.StringArrayVarP(&f.files, "filename", "f", nil, "`file` or folder with controllers and objects (repeatable)")
	set.StringVarP(&f.namespace, "namespace", "n", "", client.OfObjects)
	client.CompleteNamespaces(c, &f.cluster, "namespace")
	set.BoolVar(&f.all, "all", false, "plan all objects of the controller in the namespace")
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "plan all objects of the controller")
	set.StringArrayVar(&f.hooks, "hook", nil, "`[HOST=]ADDRESS` to reach the hook of that host, or all hooks (repeatable)")
	f.processes.RegisterExec(set)
	set.BoolVar(&f.callsOnly, "calls-only", false, "show which handlers would be called, without calling them")
	command.AddChoice(c, f.apply, "apply-strategy", "", "apply strategy for controllers of metacontroller.k8s.io, as for 'setpoint run'")
	set.StringVar(&f.fieldManager, "field-manager", "metacontroller", "field manager `name` for them")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "timeout for the list of objects, and for each object")
	f.operator.Register(set)
	set.StringVar(&f.operator.Name, "name", "", "`name` of the operator, if it runs with one")
	f.Register(c)
}

func run(p *command.Invocation, c *cobra.Command, f *planFlags, args []string) error {
	cluster, err := f.cluster.Find()
	if err != nil {
		return err
	}
	variable := os.Getenv(hooks.Variable)
	if local := cluster.LocalDir(); variable == "" && local != "" {
		variable = locate.ReadHooks(local)
	}
	routes, err := hooks.ParseRoutes(variable, f.hooks)
	if err != nil {
		return command.UsageError(err)
	}
	ctx, stop := command.UntilSignal(c.Context())
	defer stop()
	f.processes.Log = flags.NewLog(p.Stderr, flags.Brief, "info") // Before that of the libraries.
	options := manager.Options{
		Settings: compile.Settings{
			Dial: routes.Dial, Routed: routes.Has, Namespace: manager.PodNamespace(), OwnRights: true, Expressions: expression.Compile,
			ApplyStrategy: hooks.ApplyStrategy(f.apply), FieldManager: f.fieldManager,
		},
		Config: cluster.Config, Version: command.ReadVersion().Version, Log: flags.NewLog(p.Stderr, flags.Brief, "error"),
	}
	if err := f.processes.AddTo(&options); err != nil {
		return err
	}
	if f.operator.Given() {
		if err := f.operator.CheckDescribed(nil); err != nil {
			return command.UsageError(err)
		}
		op, err := f.operator.Describe(ctx, cluster, f.cluster, nil, p.Stderr)
		if err != nil {
			return err
		}
		defer op.Close()
		op.Configure(&options)
	}
	h, err := manager.New(options)
	if err != nil {
		return err
	}
	defer h.Close()
	dryRun, err := f.options(ctx, h, cluster, args)
	if err != nil {
		return err
	}
	dryRun.Program = options.Name
	report := dryrun.Run(ctx, dryRun)
	p.Code = exitCode(report.Summary)
	return f.write(p, report)
}

// options builds the options of the dry run.
func (f *planFlags) options(ctx context.Context, h *manager.Manager, cluster manager.Cluster, args []string) (dryrun.Options, error) {
	o := dryrun.Options{Manager: h, Timeout: f.timeout, CallsOnly: f.callsOnly}
	namespace := cmp.Or(f.namespace, cluster.Namespace)
	declared, objects, err := readPlanFiles(f.files)
	if err != nil {
		return o, err
	}
	user, err := client.New(cluster)
	if err != nil {
		return o, err
	}
	switch {
	case f.operator.Given():
	case len(args) > 0 && filepath.Ext(args[0]) == ".py":
		return o, command.UsageErrorf("unexpected argument %q: plan an operator in Python with --python %s", args[0], args[0])
	case len(args) > 0:
		stored, err := controllerOf(ctx, user, args[0], len(declared) == 0)
		if unknown, is := errors.AsType[*client.UnknownKindError](err); is {
			return o, command.WithHint(unknown, command.HintOf(err)+"; controllers of a process, such as "+args[0]+
				", are planned by --python FILE, or in the dashboard")
		}
		if err != nil {
			return o, err
		}
		if stored != nil {
			o.Controllers, args = append(o.Controllers, stored), args[1:]
		}
	}
	if o.Declared = declared; len(o.Controllers)+len(declared) == 0 && !f.operator.Given() {
		return o, command.UsageErrorf("no controller given; use compositecontroller.setpoint.dev/NAME, or -f FILE with one")
	}
	if o.Selection.Names, err = objectNames(ctx, user, args); err != nil {
		return o, err
	}
	o.Selection.Manifests, o.Selection.Namespace = objects, namespace
	o.Selection.All = f.all || f.everywhere || f.namespace != "" && len(args)+len(objects) == 0
	if !o.Selection.All && len(args)+len(objects) == 0 {
		return o, command.UsageErrorf("no objects given; name some, or use --all, -n NAMESPACE or -A")
	}
	elsewhere := func(o *object.Object) bool { return o.Namespace() != "" && o.Namespace() != namespace }
	o.Selection.AllNamespaces = f.everywhere || slices.ContainsFunc(objects, elsewhere)
	return o, nil
}

func (f *planFlags) write(p *command.Invocation, report dryrun.Report) error {
	if f.Structured() {
		return f.PrintValue(p.Stdout, report)
	}
	return report.WriteText(p.Stdout, dryrun.Style{Color: f.WantsColor(p.Stdout), Idle: report.Summary.Objects <= fewObjects})
}

// fewObjects is the most unchanged objects that are listed one by one.
const fewObjects = 10

func exitCode(s dryrun.Summary) int {
	switch {
	case s.Errors > 0:
		return command.Failure
	case s.Changes():
		return codeChanges
	}
	return command.OK
}

// readPlanFiles reads controllers and objects from files.
func readPlanFiles(files []string) (controllers, objects []*object.Object, err error) {
	all, err := manifests.ReadObjects(files)
	for _, one := range all {
		if _, is := compile.KindOf(one); is {
			controllers = append(controllers, one)
			continue
		}
		objects = append(objects, one)
	}
	return controllers, objects, err
}

// controllerOf returns the controller that an argument names, or nil if it names something
// else. A name without a kind is one if it is required.
func controllerOf(ctx context.Context, r *client.Client, arg string, required bool) (*object.Object, error) {
	kind, name, is, err := r.ControllerArg(ctx, arg)
	if required && !strings.Contains(arg, "/") {
		return r.ControllerNamed(ctx, arg, ", or -f FILE with one")
	}
	if err != nil || !is {
		return nil, err
	}
	declared, err := r.ReadController(ctx, kind, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", arg, err)
	}
	if declared == nil {
		return nil, fmt.Errorf("%s not found", arg)
	}
	return declared, nil
}

// objectNames returns the objects that arguments name.
func objectNames(ctx context.Context, r *client.Client, args []string) (all []dryrun.ObjectName, err error) {
	if err := client.CheckNames(args); err != nil {
		return nil, err
	}
	for _, arg := range args {
		word, name, split := strings.Cut(arg, "/")
		if !split {
			all = append(all, dryrun.ObjectName{ObjectName: arg})
			continue
		}
		kind, err := r.Kind(ctx, word)
		if err != nil {
			return nil, err
		}
		all = append(all, dryrun.ObjectName{Kind: kind.Resource(), ObjectName: name})
	}
	return all, nil
}

// completePlan completes a controller of the cluster, then objects that it handles.
func completePlan(ctx context.Context, by client.Completer, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		// Admission controllers have no objects to plan.
		return command.WithPrefix(word, by.Controllers(ctx, word, setpoint.AdmissionControllerKind)), cobra.ShellCompDirectiveDefault
	}
	kind, name, is, err := by.ControllerArg(ctx, args[0])
	if err != nil || !is {
		return nil, cobra.ShellCompDirectiveDefault // The controller is in a file.
	}
	words := by.Objects(ctx, kind, name, word)
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) })
	return slices.Compact(slices.Sorted(slices.Values(command.WithPrefix(word, words)))), cobra.ShellCompDirectiveDefault
}
