// Package reconcile is `setpoint reconcile`: it requests reconciles at a bounded rate, and waits for them.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// reconcileFlags are the flags of `setpoint reconcile`.
type reconcileFlags struct {
	processes.ReadFlags
	processes.Selection
	all     bool
	rate    float64
	wait    bool
	timeout time.Duration
}

// defaultRate is the default number of requests per second.
const defaultRate = 10

func newFlags() *reconcileFlags {
	return &reconcileFlags{ReadFlags: processes.ReadFlags{PrintFlags: output.NewPrintFlags(output.AsTable)},
		Selection: processes.NewSelection()}
}

// Command returns `setpoint reconcile`.
func Command(p *command.Invocation) *cobra.Command {
	f := newFlags()
	c := &cobra.Command{
		Use:   "reconcile CONTROLLER [OBJECT…]",
		Short: "Reconcile objects now",
		Long: `Request a reconcile of some or all objects of a controller, although nothing has changed:
its hook is called again, retries do not wait, and timers of handlers run. The history
shows who requested it.

The command sets the annotation setpoint.dev/reconcile-at on each object, so you need
permission to patch them. It sends at most --rate requests per second; Ctrl-C ends it,
and the remaining objects are not reconciled. With -A --rate 0, and no other selection,
it annotates the object that declares the controller instead, which reconciles all
objects at once.

Paused objects are skipped. CONTROLLER is a name as for 'setpoint get', OBJECT a name or
KIND/NAME.

Exit codes: 0 all requested (with --wait: and reconciled), 1 failure, or an object was
rejected or is failing, 2 wrong usage, 130 aborted.`,
		Example: `  setpoint reconcile teams red blue -n shop       # two objects
  setpoint reconcile teams --all -n shop          # all in a namespace
  setpoint reconcile teams -A --rate 50           # all, 50 per second
  setpoint reconcile teams -A --state failing     # retry what fails
  setpoint reconcile teams red --wait             # and fail if it fails again`,
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		ValidArgsFunction: processes.CompleteRunning(&f.ReadFlags, processes.RunningWords{
			Controller: func(c *inspect.Controller) bool { return checkReconcilable(c) == nil },
			Object:     func(o *inspect.ObjectState) bool { return o.State != inspect.StatePaused },
			Objects:    math.MaxInt,
		}),
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.RegisterDiscovery(c)
	c.Flags().BoolVar(&f.all, "all", false, "reconcile all objects in the namespace")
	f.Selection.Register(c)
	c.Flags().Float64Var(&f.rate, "rate", defaultRate, "most requests per second; 0 is unlimited")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until the objects are reconciled, and fail if one is failing then")
	c.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait after the last request")
	return c
}

// selects reports whether flags select objects.
func (f *reconcileFlags) selects() bool { return f.all || f.Everywhere || f.filters() }

// filters reports whether flags select some objects of a namespace.
func (f *reconcileFlags) filters() bool {
	return f.Text != "" || !f.Labels.IsZero() || f.State.Value != f.State.Allowed[0]
}

// check rejects arguments that are ambiguous.
func (f *reconcileFlags) check(args []string) error {
	var err error
	switch {
	case len(args) == 0:
		err = errors.New("no controller given; `setpoint get` lists them")
	case len(args) == 1 && !f.selects():
		err = errors.New("no objects given; name some, or use --all, -A, -l or --state")
	case len(args) > 1 && f.selects():
		err = errors.New("objects and flags that select objects exclude each other; use one of both")
	case f.rate < 0 || math.IsNaN(f.rate) || math.IsInf(f.rate, 0):
		err = fmt.Errorf("--rate must be a number of requests per second, or 0, not %v", f.rate)
	case f.timeout <= 0:
		err = fmt.Errorf("--timeout must be greater than zero, not %s", f.timeout)
	default:
		return client.CheckNames(args[1:])
	}
	return command.UsageError(err)
}

func run(ctx context.Context, p *command.Invocation, f *reconcileFlags, args []string) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	r, err := f.Open(ctx, p)
	if err != nil {
		return err
	}
	r.WarnStandby(ctx)
	g := &reconciler{processes.Managed{Session: r, Flags: &f.Selection}}
	if len(args) > 1 {
		g.Name = args[1] // A user who may get that object may name the controller.
	}
	if err := g.SelectController(ctx, args[0]); err != nil {
		return err
	}
	return g.reconcile(ctx, f, args[1:])
}

// All requests a reconcile of all objects of all controllers that run in the cluster of a kubeconfig.
func All(ctx context.Context, kubeconfig string, out io.Writer) error {
	f := newFlags()
	f.Cluster.Kubeconfig, f.Everywhere = kubeconfig, true
	r, err := f.Open(ctx, &command.Invocation{Stdout: out, Stderr: out})
	if err != nil {
		return err
	}
	run, err := r.RunningControllers(ctx)
	run = slices.DeleteFunc(run, func(c processes.RunningController) bool { return c.AllReplicas })
	if err == nil && len(run) == 0 {
		fmt.Fprintln(out, "no controller with objects runs")
	}
	problems := []error{err}
	for _, each := range run {
		g := &reconciler{processes.Managed{Session: r, Flags: &f.Selection, Selected: each.Controller, Source: each.Source}}
		problems = append(problems, g.reconcile(ctx, f, nil))
	}
	return errors.Join(problems...)
}

// reconciler reconciles objects of a controller.
type reconciler struct{ processes.Managed }

// reconcile requests the reconciles, and waits for them if the user wants that.
func (g *reconciler) reconcile(ctx context.Context, f *reconcileFlags, names []string) error {
	if err := checkReconcilable(&g.Selected); err != nil {
		return err
	}
	requests := newReconcileRequests(ctx, g.Session, f.rate)
	w := &reconcileWait{Session: g.Session, source: g.Source, timeout: f.timeout}
	if f.wait {
		if err := w.checkLeader(ctx); err != nil {
			return err
		}
	} else if f.rate == 0 && f.Everywhere && !f.filters() && g.Selected.Declared != nil {
		return requests.controller(ctx, &g.Selected)
	}
	targets, err := g.targets(ctx, names, requests, f.selects())
	if err != nil || len(targets)+requests.failed == 0 {
		return err
	}
	err = requests.objects(ctx, targets)
	if f.wait && ctx.Err() == nil {
		err = cmp.Or(w.all(ctx, requests.waitFor), err)
	}
	return err
}

// checkReconcilable returns why no object of a controller can be reconciled.
func checkReconcilable(c *inspect.Controller) error {
	name := output.Clean(c.Name)
	switch {
	case c.AllReplicas:
		return fmt.Errorf("%s is an admission controller, which manages no objects", name)
	case c.Refusal() != "":
		return fmt.Errorf("%s is not accepted and manages no objects: %s", name, output.Clean(c.Refusal()))
	case c.Suspended:
		return command.WithHint(fmt.Errorf("%s is suspended", name),
			"remove spec.suspend, or the annotation setpoint.dev/paused, of the object that declares it")
	}
	return nil
}

// targets returns the objects to reconcile: those of these names, or those that flags select.
// Where one of several names cannot be reconciled, the others can.
func (g *reconciler) targets(ctx context.Context, names []string, requests *reconcileRequests, selected bool) ([]client.VisibleState,
	error) {
	if !selected {
		all, problems := g.namedTargets(ctx, names)
		i := slices.IndexFunc(problems, userclient.AffectsAllObjects)
		switch {
		case i >= 0:
			return nil, problems[i]
		case len(names) == 1 && len(problems) > 0:
			return nil, problems[0]
		}
		for _, problem := range problems {
			requests.reject(problem)
		}
		return all, nil
	}
	g.Name = ""
	all, total, err := g.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		g.WarnNone(total)
	}
	before := len(all)
	all = slices.DeleteFunc(all, isPaused)
	if paused := before - len(all); paused > 0 {
		fmt.Fprintf(g.Stderr, "warning: skipped %s\n", output.Plural(paused, "paused object", "paused objects"))
	}
	return all, nil
}

// namedTargets returns the objects of these names, and why others cannot be reconciled.
func (g *reconciler) namedTargets(ctx context.Context, names []string) (all []client.VisibleState, problems []error) {
	for _, g.Name = range names {
		found, err := g.NamedKind(ctx)
		if i := slices.IndexFunc(found, isPaused); i >= 0 {
			err = command.WithHint(fmt.Errorf("%s is paused", client.NameOf(found[i].Ref)), "to resume: `kubectl annotate "+
				client.CommandArg(found[i].Ref)+
				" setpoint.dev/paused-`")
			found = slices.DeleteFunc(found, isPaused)
		}
		if err != nil {
			problems = append(problems, err)
		}
		all = processes.AppendNew(all, found)
	}
	return all, problems
}

func isPaused(s client.VisibleState) bool { return s.State == inspect.StatePaused }
