// Command bench measures Setpoint against a hand-written controller-runtime
// controller and against the bare writes, on a control plane that it boots
// itself, and prints one table with ratios. README.md explains the columns.
//
// The hook and the hand-written controller are this binary started again, each
// as a process of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/setpoint-dev/setpoint/test/bench/internal/handwritten"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/run"
	"github.com/setpoint-dev/setpoint/test/bench/internal/webhook"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, run.ErrUsage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitUsage)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
}

func dispatch(ctx context.Context, args []string) error {
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	switch role {
	case "hook":
		return runHook(ctx, args[1:])
	case "handwritten":
		return runHandwritten(ctx, args[1:])
	default:
		return run.Main(ctx, args)
	}
}

func runHook(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hook", flag.ContinueOnError)
	address := flags.String("address", probe.AnyAddress, "where to listen")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return webhook.Run(ctx, *address)
}

func runHandwritten(ctx context.Context, args []string) error {
	var options handwritten.Options
	flags := flag.NewFlagSet("handwritten", flag.ContinueOnError)
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "the cluster to work on")
	flags.IntVar(&options.Workers, "workers", 32, "reconciles at once")
	flags.BoolVar(&options.Related, "related", false, "watch the ConfigMaps that parents read, too")
	flags.DurationVar(&options.Resync, "resync", 0, "reconcile each parent again after this time; 0 does not")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return handwritten.Run(ctx, options)
}
