// Command inprocess is Setpoint as a Go program without a webhook: the
// reference work written with the SDK, through handlers or through a Sync. The
// bench runs it as a contender, as a process of its own; it is a binary of its
// own so that its memory does not include the code of other contenders.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

var errUsage = errors.New("usage: inprocess handler|sync [flags]")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUsage)
	default:
		fmt.Fprintln(os.Stderr, "inprocess:", err)
		os.Exit(exitFailed)
	}
}

// options are the command line.
type options struct {
	run setpoint.Options
	// resync has each parent looked at again after that time; 0 does not.
	resync time.Duration
	// related has parents looked at when what they read changes.
	related bool
	// unrecorded keeps no account of what is done.
	unrecorded bool
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	recorder := &probe.Recorder{}
	var o options
	if err := o.parse(args[0], args[1:]); err != nil {
		return err
	}
	app, err := o.app(args[0], &worker{recorder: recorder})
	if err != nil {
		return err
	}
	o.run.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	o.run.Ready = recorder.SetReady
	served := make(chan error, 1)
	go func() { served <- probe.Serve(ctx, recorder, http.NewServeMux(), probe.AnyAddress, os.Stdout) }()
	if err := app.Run(ctx, o.run); err != nil {
		return err
	}
	return <-served
}

// app is the program of a form.
func (o *options) app(form string, w *worker) (*setpoint.App, error) {
	switch form {
	case "handler":
		return w.handlers(o), nil
	case "sync":
		return w.composer(o), nil
	}
	return nil, errUsage
}

func (o *options) parse(form string, args []string) error {
	flags := flag.NewFlagSet("inprocess "+form, flag.ContinueOnError)
	flags.StringVar(&o.run.Kubeconfig, "kubeconfig", "", "the cluster to work on")
	flags.IntVar(&o.run.Workers, "workers", 32, "parents worked on at once")
	flags.StringVar(&o.run.Address, "profile", "", "`address` of metrics and profiles")
	flags.DurationVar(&o.resync, "resync", 0, "look at each parent again after this time; 0 does not")
	flags.BoolVar(&o.unrecorded, "unrecorded", false, "keep no account of what is done")
	flags.BoolVar(&o.related, "related", false, "look at parents when what they read changes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.run.Profiling = o.run.Address != ""
	if o.unrecorded {
		o.run.HistorySize = -1
	}
	return nil
}
