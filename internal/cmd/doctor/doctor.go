// Package doctor is `setpoint doctor`: it checks what this machine and a cluster offer to Setpoint, and says what to do
// where something is missing. It changes nothing.
package doctor

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dev"
)

// Command returns `setpoint doctor` of a binary, about which it says something.
func Command(p *command.Invocation, about string) *cobra.Command {
	var place client.PlaceFlags
	printer := output.NewTextFlags()
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine and a cluster offer to Setpoint",
		Long: `Check the programs, ports and limits of this machine, what killed sessions of 'setpoint
dev' have left on it, and the cluster of the kubeconfig: whether it responds, its clock,
what you may do there for 'setpoint run', and whether the API server reaches the webhooks
of Setpoint. Each line is ok, or says what to do:

  warning       something is missing that only some need
  failed        something is broken
  not checked   why it is not known

Nothing is changed: webhooks are called by a dry run. It takes 15 seconds at most.

Exit codes: 0 nothing failed, 1 something is broken, 2 wrong usage.`,
		Example: `  setpoint doctor
  setpoint doctor --context staging -o json`,
		Args: command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), limit)
			defer cancel()
			found := runAll(ctx, checks(ctx, &place, about))
			if slices.ContainsFunc(found, func(f finding) bool { return f.State == isFailed }) {
				p.Code = command.Failure
			}
			if printer.Structured() {
				return printer.PrintValue(p.Stdout, map[string]any{"items": found})
			}
			_, err := io.WriteString(p.Stdout, text(found, printer.WantsColor(p.Stdout)))
			return err
		},
	}
	place.RegisterPlace(c, client.InstallNamespace, "`namespace` that Setpoint runs in")
	printer.Register(c)
	return c
}

// check is one line of the report.
type check struct {
	name string
	run  func(ctx context.Context) finding
}

// checks are all checks, in the order of the report.
func checks(ctx context.Context, place *client.PlaceFlags, about string) []check {
	version := func(context.Context) finding {
		v := command.ReadVersion()
		return isOK.because("%s, %s, %s %s", v.Version, about, v.Go, v.Platform)
	}
	reach := sync.OnceValue(func() *cluster { return connect(ctx, place.Cluster) })
	whenReached := func(run func(*cluster) finding) func(context.Context) finding {
		return func(context.Context) finding {
			c := reach()
			if c.State != isOK {
				return isNotChecked.because("no cluster is reached")
			}
			return run(c)
		}
	}
	return []check{
		{"setpoint", version},
		{"go", golang.check},
		{"python3", python},
		{"node", node.check},
		{"browser", tool{program: dev.Browser(), needs: "keys of setpoint dev that open pages",
			install: "set $BROWSER, or open the dashboard elsewhere by `ssh -L`"}.check},
		{"dashboard port", dashboardPort},
		{"health port", healthPort},
		{"open files", openFiles},
		{"leftovers", leftovers},
		{"cluster", func(context.Context) finding { return reach().finding }},
		{"clock", whenReached(func(c *cluster) finding { return judgeClock(c.clock.date, c.clock.received) })},
		{"rights", whenReached(func(c *cluster) finding { return c.rights(ctx, place.Namespace) })},
		{"webhooks", whenReached(func(c *cluster) finding { return c.webhooks(ctx) })},
	}
}

// limit is how long all checks may take.
const limit = 15 * time.Second

// runAll runs checks at the same time and returns their findings in order. It does not wait for one that ignores the end of
// the context, as a plugin for credentials may do.
func runAll(ctx context.Context, checks []check) []finding {
	all := make([]finding, len(checks))
	ended := make(chan int, len(checks))
	found := make([]finding, len(checks))
	for i, c := range checks {
		all[i] = isNotChecked.because("it took longer than %s", limit)
		all[i].Name = c.name
		go func() {
			found[i] = c.run(ctx)
			found[i].Name = c.name
			ended <- i
		}()
	}
	for range checks {
		select {
		case i := <-ended:
			all[i] = found[i]
		case <-ctx.Done():
			return all
		}
	}
	return all
}
