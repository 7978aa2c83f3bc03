package run

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/scenario"
)

// ErrUsage says that the command line, not the bench, is at fault.
var ErrUsage = errors.New("usage")

// options is the command line.
type options struct {
	scenario.Options
	setpoint, controller string
	inprocess            string
	metacontroller       string
	kubeconfig           string
	contenders           []string
	baseline             string
	rounds               int
	output               string
	keep                 bool
	smoke                bool
}

const usage = `Measure Setpoint against a hand-written controller and the bare writes.

  bench -setpoint bin/setpoint                      everything
  bench -setpoint bin/setpoint -smoke               everything, tiny: does it work?
  bench -scenarios churn -sizes 200x20              one scenario, one size
  bench -contenders handwritten,setpoint -rounds 3 -o markdown

Flags:
`

// parse reads the command line. Its errors are usage errors or flag.ErrHelp.
func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	contenders := flags.String("contenders", "writes,handwritten,setpoint,setpoint-javascript,setpoint-starlark,go-handler,go-sync",
		"who, in this `order`: "+strings.Join(contender.Names(), ", "))
	flags.StringVar(&o.baseline, "baseline", contender.Handwritten, "the `contender` that ratios compare with")
	scenarios := flags.String("scenarios", strings.Join(scenario.Names(), ","), "which `scenarios`")
	flags.BoolVar(&o.smoke, "smoke", false, "tiny sizes, to see that everything works: the numbers mean nothing")
	o.bindPlaces(flags)
	o.bindSizes(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	o.contenders, o.Scenarios = strings.Split(*contenders, ","), strings.Split(*scenarios, ",")
	if o.metacontroller != "" && !isGiven(flags, "contenders") {
		o.contenders = append(o.contenders, contender.Metacontroller)
	}
	if o.smoke {
		o.shrink(flags)
	}
	if err := o.check(flags.Args()); err != nil {
		return o, fmt.Errorf("%w: %w (see -help)", ErrUsage, err)
	}
	return o, nil
}

func (o *options) bindPlaces(flags *flag.FlagSet) {
	flags.StringVar(&o.setpoint, "setpoint", "bin/setpoint", "the `binary` that boots the control plane")
	flags.StringVar(&o.controller, "controller", "", "the `binary` that is measured (default: setpoint-controller beside -setpoint)")
	flags.StringVar(&o.inprocess, "inprocess", "", "the `binary` of the programs written in Go (default: bench-inprocess beside -setpoint)")
	flags.StringVar(&o.metacontroller, "metacontroller", "",
		"the `binary` of Metacontroller, for the contenders of that name; the README says how to build one")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "use the cluster of this `file`, which must be on loopback, instead of booting one")
	flags.StringVar(&o.output, "o", "table", "`format`: "+strings.Join(report.Formats(), ", "))
	flags.IntVar(&o.rounds, "rounds", 1, "measure so many times, every other time in reverse order, and show medians")
	flags.BoolVar(&o.keep, "keep", false, "keep the logs also when all goes well")
}

func (o *options) bindSizes(flags *flag.FlagSet) {
	o.Sizes = []scenario.Size{{Parents: 2000, Children: 1}, {Parents: 200, Children: 20}, {Parents: 10_000, Children: 1}}
	flags.Func("sizes", "`sizes` of churn and restart, as parents x children; the first is that of other scenarios too (default "+
		"2000x1,200x20,10000x1)", o.setSizes)
	flags.IntVar(&o.Workers, "workers", 32, "requests of the load generator, writes and reconciles at once")
	flags.DurationVar(&o.Resync, "resync", 10*time.Second, "steady: resync period, in whole seconds; watched for two")
	flags.IntVar(&o.Samples, "samples", 200, "latency: number of events")
	flags.IntVar(&o.Changes, "changes", 7, "related: how often the ConfigMap changes")
	flags.DurationVar(&o.Outage, "outage", time.Minute, "outage: how long the hook is away")
	flags.IntVar(&o.Memory.Parents, "memory-parents", 1000, "memory: number of parents")
	flags.IntVar(&o.Memory.Children, "memory-children", 10, "memory: ConfigMaps of each parent")
	flags.IntVar(&o.Busy, "busy", 10_000, "tenants: number of parents of the busy tenant")
	flags.IntVar(&o.Unrelated, "unrelated", 50_000, "unrelated: number of ConfigMaps without an owner")
	flags.DurationVar(&o.Timeout, "timeout", 3*time.Minute, "limit of each phase")
}

func (o *options) setSizes(list string) error {
	o.Sizes = nil
	for text := range strings.SplitSeq(list, ",") {
		size, err := scenario.ParseSize(text)
		if err != nil {
			return err
		}
		o.Sizes = append(o.Sizes, size)
	}
	return nil
}

func isGiven(flags *flag.FlagSet, name string) (given bool) {
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// shrink makes sizes tiny that were not given.
func (o *options) shrink(flags *flag.FlagSet) {
	for name, value := range map[string]string{
		"sizes": "50x1,5x4", "resync": "2s", "samples": "20", "changes": "2", "outage": "2s",
		"memory-parents": "5", "memory-children": "20", "busy": "100", "unrelated": "200", "timeout": "1m",
	} {
		if !isGiven(flags, name) {
			_ = flags.Set(name, value) // of constants above
		}
	}
}

func (o *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	for _, name := range o.Scenarios {
		if !slices.Contains(scenario.Names(), name) {
			return fmt.Errorf("no scenario %q; there are %s", name, strings.Join(scenario.Names(), ", "))
		}
	}
	for _, name := range append([]string{o.baseline}, o.contenders...) {
		if _, err := contender.New(name, contender.Config{}); err != nil {
			return err
		}
	}
	if !slices.Contains(report.Formats(), o.output) {
		return fmt.Errorf("no output format %q; there are %s", o.output, strings.Join(report.Formats(), ", "))
	}
	if min(o.Workers, o.rounds, o.Samples, o.Changes, o.Memory.Parents, o.Memory.Children, o.Busy) < 1 {
		return errors.New("sizes are 1 or more")
	}
	if o.Resync < time.Second || o.Resync%time.Second != 0 {
		return errors.New("-resync is in whole seconds")
	}
	return nil
}

// findBinaries looks for what will be run before anything is started.
func (o *options) findBinaries() error {
	beside := filepath.Dir(o.setpoint)
	o.controller = cmp.Or(o.controller, filepath.Join(beside, "setpoint-controller"))
	o.inprocess = cmp.Or(o.inprocess, filepath.Join(beside, "bench-inprocess"))
	for _, path := range []*string{&o.setpoint, &o.controller, &o.inprocess, &o.metacontroller} {
		if *path == "" {
			continue
		}
		// A path without a slash would be looked for in $PATH.
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("find %s: %w", *path, err)
		}
		*path = absolute
	}
	if o.kubeconfig == "" {
		if _, err := os.Stat(o.setpoint); err != nil {
			return fmt.Errorf("%w: the binary with the control plane: %w; build it with `make build`, or name it with -setpoint",
				ErrUsage, err)
		}
	}
	return o.findMeasured()
}

// findMeasured looks for the binaries of those who take part.
func (o *options) findMeasured() error {
	for _, binary := range []struct {
		path, flag, build string
		of                []string
	}{
		{o.controller, "-controller", "run `make build`", []string{contender.Setpoint, contender.SetpointMC, contender.SetpointJavaScript,
			contender.SetpointStarlark}},
		{o.inprocess, "-inprocess", "run `make bin/bench-inprocess`", []string{contender.GoHandler, contender.GoSync}},
		{o.metacontroller, "-metacontroller", "see test/bench/README.md", []string{contender.Metacontroller,
			contender.MetacontrollerDefault}},
	} {
		measured := slices.ContainsFunc(o.contenders, func(name string) bool { return slices.Contains(binary.of, contender.Plain(name)) })
		if !measured {
			continue
		}
		if _, err := os.Stat(binary.path); err != nil {
			return fmt.Errorf("%w: a binary to measure: %w; to build it, %s; name it with %s, or leave it out with -contenders "+
				"writes,handwritten",
				ErrUsage, err, binary.build, binary.flag)
		}
	}
	return nil
}
