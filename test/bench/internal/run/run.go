// Package run is the bench's command line: it reads the flags, boots the control
// plane, has every contender take its turn, and prints the report.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/scenario"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// Main runs the bench that the arguments describe. It writes progress to
// standard error and the report to standard output.
func Main(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if err := o.findBinaries(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "setpoint-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for logs: %w", err)
	}
	defer func() { err = o.keepOrRemove(dir, err) }()
	since := time.Now()
	var plane *cluster.ControlPlane
	if o.kubeconfig == "" {
		if plane, err = cluster.Boot(ctx, o.setpoint, dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, plane.Stop()) }()
		o.kubeconfig = plane.Kubeconfig
	}
	r, err := o.newRunner(ctx, dir, since)
	if err != nil {
		return err
	}
	r.plane = plane
	r.progress("control plane ready")
	if err := r.run(ctx); err != nil {
		return err
	}
	return r.report.Write(os.Stdout, o.output)
}

// keepOrRemove removes the logs if they are not needed.
func (o *options) keepOrRemove(dir string, err error) error {
	if err == nil && !o.keep {
		return os.RemoveAll(dir)
	}
	fmt.Fprintln(os.Stderr, "logs are in", dir)
	return err
}

// runner is one run on a cluster that is there.
type runner struct {
	options options
	since   time.Time
	admin   *cluster.Client
	// plane is the control plane that was booted, nil for one that was there.
	plane      *cluster.ControlPlane
	report     *report.Report
	contenders []contender.Contender
}

func (o options) newRunner(ctx context.Context, dir string, since time.Time) (*runner, error) {
	r := &runner{options: o, since: since, report: &report.Report{Baseline: o.baseline}}
	var err error
	if r.admin, err = cluster.Connect(o.kubeconfig); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("cluster not prepared within %s", o.Timeout))
	defer cancel()
	identity := filepath.Join(dir, "contender.kubeconfig")
	if err := prepare(ctx, r.admin, identity); err != nil {
		return nil, fmt.Errorf("prepare the cluster: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the running binary: %w", err)
	}
	for _, name := range o.contenders {
		c, err := contender.New(name, contender.Config{
			Dir:                  dir,
			Kubeconfig:           identity,
			Admin:                r.admin,
			Self:                 self,
			SetpointBinary:       o.controller,
			InProcessBinary:      o.inprocess,
			MetacontrollerBinary: o.metacontroller,
			Workers:              o.Workers,
		})
		if err != nil {
			return nil, err
		}
		r.contenders = append(r.contenders, c)
	}
	return r, nil
}

// prepare creates what all contenders need: the kind, the identity they act as,
// and the count of its requests.
func prepare(ctx context.Context, admin *cluster.Client, identity string) error {
	if err := admin.Apply(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+thing.CRDName, thing.CRD); err != nil {
		return err
	}
	if err := cluster.CreateIdentity(ctx, admin, identity); err != nil {
		return err
	}
	acting, err := cluster.Connect(identity)
	if err != nil {
		return err
	}
	if err := cluster.InstallCounters(ctx, admin, acting, thing.Resource); err != nil {
		return err
	}
	return cluster.Poll(ctx, "things to be served", func() (bool, error) {
		_, err := admin.Get(ctx, "/apis/"+thing.Group+"/"+thing.Version+"/"+thing.Resource)
		return err == nil, nil
	})
}

func (r *runner) progress(text string) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(r.since).Seconds(), text)
}

func (r *runner) run(ctx context.Context) (err error) {
	defer func() {
		for _, c := range r.contenders {
			err = errors.Join(err, c.Close())
		}
	}()
	bench := scenario.Bench{
		Options:  r.options.Options,
		Admin:    r.admin,
		Report:   r.report,
		Progress: r.progress,

		OtherProcesses: r.otherProcesses,
	}
	if err := bench.WarmUp(ctx, r.contenders); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	r.progress("warmed up")
	order := slices.Clone(r.contenders)
	for range r.options.rounds {
		if err := bench.Round(ctx, order); err != nil {
			return err
		}
		slices.Reverse(order)
	}
	return r.conclude(ctx)
}

// otherProcesses reads the processor time of this process and of the control plane.
func (r *runner) otherProcesses() (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	if r.plane != nil {
		var err error
		if used, err = r.plane.Processors(); err != nil {
			return nil, err
		}
	}
	var err error
	used[scenario.LoadProcess], err = procfs.CPU(os.Getpid())
	return used, err
}

// conclude makes the report of what was measured.
func (r *runner) conclude(ctx context.Context) error {
	scenario.CompareUnrelated(r.report, r.options.Sizes[0])
	r.report.Fold(r.options.contenders)
	r.compareAllGoals()
	conditions, err := r.conditions(ctx)
	r.report.Conditions = conditions
	return err
}

// compareAllGoals compares with the goals that are ratios to the baseline.
func (r *runner) compareAllGoals() {
	if r.options.smoke {
		return
	}
	switch o := r.options.Options; r.options.baseline {
	case contender.Handwritten:
		r.compareGoals(scenario.Goals(o), contender.Setpoint, contender.SetpointMC)
		r.compareGoals(scenario.InProcessGoals(o), contender.GoHandler, contender.GoSync)
	case contender.Setpoint:
		r.compareGoals(scenario.InlineGoals(o), contender.SetpointJavaScript, contender.SetpointStarlark)
	}
}

// compareGoals compares contenders that have the same goals with them.
func (r *runner) compareGoals(goals []report.Goal, contenders ...string) {
	for _, name := range contenders {
		r.report.Compare(name, goals)
	}
}
