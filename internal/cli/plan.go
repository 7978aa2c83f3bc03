package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// codeChanges is the exit code of a plan that is not empty.
const codeChanges = 2

// planFlags are what `setpoint plan` can be told.
type planFlags struct {
	cluster      clusterFlags
	files        []string
	namespace    string
	all          bool
	everywhere   bool
	hooks        []string
	callsOnly    bool
	apply        *choice
	fieldManager string
	timeout      time.Duration
	output       *choice
}

func (p *program) planCommand() *cobra.Command {
	f := &planFlags{output: oneOf("text", "json"), apply: oneOf(merge, server).withAliases(legacyStrategies())}
	c := &cobra.Command{
		Use:   "plan [CONTROLLER] [OBJECT…]",
		Short: "Show what a controller would do, and do nothing",
		Long: `Ask the hooks of a controller about objects, and show what would be created,
changed and deleted for them, and what their status would be. Nothing is
written: the API server tries the writes (dry run), so that its defaults and
admission are in what is shown. The hooks are asked for real.

Of a HandlerController, it is shown which handlers would be told of what now, and
what would be written of their answers. They are told with dryRun: true;
--calls-only tells them nothing.

CONTROLLER is one of the cluster, such as compositecontroller.setpoint.dev/NAME or
decoratorcontroller.metacontroller.k8s.io/NAME, or is in a file. OBJECT is the
name of an object that the controller manages, or KIND/NAME. Other objects of the
files are taken as if they were applied.

` + kindHelp + `

A hook behind a Service of the cluster cannot be reached from outside of it.
--hook says where it, or another version of it, can be; so does $SETPOINT_HOOKS,
with commas between them. The processes of 'setpoint dev' are found by the
kubeconfig that it writes.

Exit codes: 0 nothing to do, 2 there are changes, 1 something went wrong.`,
		Example: `  setpoint plan compositecontroller.setpoint.dev/teams red  # one object
  setpoint plan spcc/teams -A                               # all of them, by the short name
  setpoint plan -f controller.yaml --all -n shop            # with another controller
  setpoint plan -f controller.yaml -f example.yaml          # nothing of it applied yet
  setpoint plan spcc/teams red --hook localhost:8080        # with another hook
  setpoint plan handlercontroller.setpoint.dev/rates -A --calls-only
  setpoint plan spcc/teams -A -o json | jq .summary`,
		Annotations:       map[string]string{usageCode: "1"},
		ValidArgsFunction: complete(&f.cluster, &f.namespace, completer.planArgs),
		RunE:              func(c *cobra.Command, args []string) error { return p.plan(c, f, args) },
	}
	f.register(c)
	return c
}

func (f *planFlags) register(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.register(c)
	set.StringArrayVarP(&f.files, "filename", "f", nil, "`file` or folder with controllers and objects; may be repeated")
	set.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the objects; that of the context if empty")
	completeNamespaces(c, &f.cluster, "namespace")
	set.BoolVar(&f.all, "all", false, "all objects of the controller in the namespace")
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "all objects of the controller")
	set.StringArrayVar(&f.hooks, "hook", nil, "`[HOST=]ADDRESS` where to reach the hook of that host, or all hooks; may be repeated")
	set.BoolVar(&f.callsOnly, "calls-only", false, "show which handlers would be called, and call none")
	f.apply.flag(c, "apply-strategy", "", "the one 'setpoint run' has for controllers of metacontroller.k8s.io")
	set.StringVar(&f.fieldManager, "field-manager", "metacontroller", "the `name` it has for them")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "give up an object, or the listing before, after that time")
	f.output.flag(c, "output", "o", "how to write it")
}

func (p *program) plan(c *cobra.Command, f *planFlags, args []string) error {
	cluster, err := f.cluster.find()
	if err != nil {
		return err
	}
	variable := os.Getenv(hooksVariable)
	if variable == "" && cluster.ProcessDir != "" {
		variable = discovery.ReadHooks(cluster.ProcessDir)
	}
	routes, err := parseRoutes(variable, f.hooks)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	h, err := manager.New(manager.Options{
		Config: cluster.Config, Dial: routes.dial, Routed: routes.has, Namespace: manager.PodNamespace(), Version: readVersion().Version,
		ApplyStrategy: strategies()[f.apply.value], FieldManager: f.fieldManager, Log: newLog(p.stderr, "brief", "error"),
	})
	if err != nil {
		return err
	}
	defer h.Close()
	options, err := f.options(ctx, h, cluster, args)
	if err != nil {
		return err
	}
	report := dryrun.Run(ctx, options)
	p.code = exitCode(report.Summary)
	return f.write(p, report)
}

// options find out what is to be looked at.
func (f *planFlags) options(ctx context.Context, h *manager.Manager, cluster manager.Cluster, args []string) (dryrun.Options, error) {
	o := dryrun.Options{Manager: h, Timeout: f.timeout, CallsOnly: f.callsOnly}
	namespace := f.namespace
	if namespace == "" {
		namespace = cluster.Namespace
	}
	declared, objects, err := readPlanFiles(f.files)
	if err != nil {
		return o, err
	}
	perms, err := newPermissions(cluster)
	if err != nil {
		return o, err
	}
	reader := &reader{perms.api}
	if len(args) > 0 {
		stored, err := reader.controllerOf(ctx, h, args[0])
		if err != nil {
			return o, err
		}
		if stored != nil {
			o.Controllers, args = append(o.Controllers, stored), args[1:]
		}
	}
	if o.Declared = declared; len(o.Controllers)+len(declared) == 0 {
		return o, usageError{errors.New("no controller is named; write compositecontroller.setpoint.dev/NAME, or -f FILE with one")}
	}
	if o.Selection.Names, err = reader.named(ctx, args); err != nil {
		return o, err
	}
	o.Selection.Manifests, o.Selection.Namespace = objects, namespace
	o.Selection.All = f.all || f.everywhere || f.namespace != "" && len(args)+len(objects) == 0
	if !o.Selection.All && len(args)+len(objects) == 0 {
		return o, usageError{errors.New("no object is named; name some, or say --all, -n NAMESPACE or -A")}
	}
	o.Selection.AllNamespaces = f.everywhere || spansNamespaces(objects, namespace)
	return o, nil
}

func (f *planFlags) write(p *program, report dryrun.Report) error {
	if f.output.value == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	return report.WriteText(p.stdout, dryrun.Style{Color: wantsColor(p.stdout), Idle: report.Summary.Objects <= fewObjects})
}

// fewObjects may be named one by one, although there is nothing to do about them.
const fewObjects = 10

func exitCode(s dryrun.Summary) int {
	switch {
	case s.Errors > 0:
		return codeFailure
	case s.Changes():
		return codeChanges
	}
	return codeOK
}
