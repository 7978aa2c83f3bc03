// Command compare has the same operator, written in several ways, do the same
// things on one control plane, one after the other, and prints what was written for
// it, what it does and what it costs as one table in Markdown. README.md says how
// it is made fair and how it is counted.
//
// The operators lie in folders beside this one, as their authors would have them;
// nothing here imports them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const exitFailed = 1

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(exitFailed)
	}
}

// options is the command line.
type options struct {
	// root is the repository, bin the folder of what was built of it.
	root, bin string
	// objects is the number of objects, outage the number that change while the
	// operator is down.
	objects, outage int
	// workers is how many requests the load generator makes at once.
	workers int
	timeout time.Duration
	only    []string
	keep    bool
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the repository's `folder`")
	flags.StringVar(&o.bin, "bin", "../../bin", "the `folder` of the binaries")
	flags.IntVar(&o.objects, "objects", 500, "how many ExchangeRates")
	flags.IntVar(&o.outage, "outage", 50, "how many of them change while the operator is away")
	flags.IntVar(&o.workers, "workers", 32, "requests of the load generator at once")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "limit of each step")
	only := flags.String("only", "", "these `contenders`, not all: "+strings.Join(names(), ","))
	flags.BoolVar(&o.keep, "keep", false, "keep the logs also when all goes well")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.outage < firstUntouched || o.outage >= o.objects {
		return o, fmt.Errorf("-outage is at least %d and less than -objects", firstUntouched)
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	return o, o.absolute()
}

// absolute makes the folders absolute, for processes with another working directory.
func (o *options) absolute() error {
	for _, folder := range []*string{&o.root, &o.bin} {
		path, err := filepath.Abs(*folder)
		if err != nil {
			return fmt.Errorf("find %s: %w", *folder, err)
		}
		*folder = path
	}
	return nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "setpoint-compare-")
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
	s, err := newEnvironment(ctx, o, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	results, err := s.compare(ctx, chosen)
	if err != nil {
		return err
	}
	return s.report(ctx, os.Stdout, results)
}
