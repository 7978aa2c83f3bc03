// Command admission measures the cost of mutating pods before they are stored:
// without a webhook, and the same mutation by a webhook written on controller-runtime, by a
// Go program with the SDK, and by an AdmissionController whose hook is a Go program.
// Pods are created as dry runs, by one client and by many, and one table says how long
// that took.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

const exitFailed = 1

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "admission:", err)
		os.Exit(exitFailed)
	}
}

// dispatch starts as one of those who are measured, each a process of its own, or as
// who measures them.
func dispatch(ctx context.Context, args []string) error {
	roles := map[string]func(context.Context, string) error{"handwritten": runHandwritten, "sdk": runProgram, "hook": runHook}
	if len(args) == 2 && roles[args[0]] != nil {
		return roles[args[0]](ctx, args[1])
	}
	return measure(ctx, args)
}

// options is the command line.
type options struct {
	setpoint, controller string
	// single and crowd are how many pods are created by one client, and by many.
	single, crowd, clients, rounds int
	timeout                        time.Duration
	keep                           bool
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("admission", flag.ContinueOnError)
	flags.StringVar(&o.setpoint, "setpoint", "../../bin/setpoint", "the `binary` that boots the control plane")
	flags.StringVar(&o.controller, "controller", "../../bin/setpoint-controller", "the `binary` that is measured")
	flags.IntVar(&o.single, "single", 500, "pods that one client creates")
	flags.IntVar(&o.crowd, "crowd", 4000, "pods that many create")
	flags.IntVar(&o.clients, "clients", 32, "how many those are")
	flags.IntVar(&o.rounds, "rounds", 3, "measure so many times, every other time in reverse order, and show medians")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "limit of each turn")
	flags.BoolVar(&o.keep, "keep", false, "keep the logs also when all goes well")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if min(o.single, o.crowd, o.clients, o.rounds) < 1 {
		return o, errors.New("sizes are 1 or more")
	}
	for _, path := range []*string{&o.setpoint, &o.controller} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("find %s: %w", *path, err)
		}
		*path = absolute
	}
	return o, nil
}

func measure(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "setpoint-admission-")
	if err != nil {
		return fmt.Errorf("make a directory for logs: %w", err)
	}
	defer func() {
		if err == nil && !o.keep {
			err = os.RemoveAll(dir)
			return
		}
		fmt.Fprintln(os.Stderr, "logs are in", dir)
	}()
	plane, err := cluster.Boot(ctx, o.setpoint, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	b, err := newBench(o, dir, plane.Kubeconfig)
	if err != nil {
		return err
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	return b.report(os.Stdout)
}
