// Package get is `setpoint get`: controllers, the objects of one, and reviews.
package get

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// getFlags are the flags of `setpoint get`.
type getFlags struct {
	processes.ReadFlags
	processes.Selection
}

func newGetFlags() *getFlags {
	return &getFlags{ReadFlags: processes.ReadFlags{PrintFlags: output.NewRowFlags()}, Selection: processes.NewSelection()}
}

// Command returns `setpoint get`.
func Command(p *command.Invocation) *cobra.Command {
	f := newGetFlags()
	c := &cobra.Command{
		Use:   "get [CONTROLLER] [NAME…]",
		Short: "List controllers, or the objects of one",
		Long: `List the running controllers, or the objects managed by one of them, sorted by
severity.

CONTROLLER is a name of the first column, KIND/NAME of the object that declares it, or
the part after the slash if that is unambiguous.

` + client.KindHelp + `
` + processes.DiscoveryHelp,
		Example: `  setpoint get                               # the controllers
  setpoint get teams                         # the objects of one, in this namespace
  setpoint get teams -A --state failing      # failing objects in all namespaces
  setpoint get teams -l tier=gold -o name    # their names
  setpoint get teams red -n shop -o yaml     # one object
  setpoint get teams red blue -n shop        # two
  setpoint get reviews                       # what admission webhooks decided
  setpoint get teams -o jsonpath='{.items[?(@.state=="Failing")].error}'
  setpoint get -w                            # watch for changes`,
		Args: func(_ *cobra.Command, args []string) error {
			return client.CheckNames(args[min(1, len(args)):])
		},
		ValidArgsFunction: processes.CompleteRunning(&f.ReadFlags, processes.RunningWords{Objects: math.MaxInt}),
		RunE:              func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.ReadFlags.Register(c)
	f.Selection.Register(c)
	command.AddChoice(c, f.Sort, "sort-by", "", "sort order of objects")
	c.AddCommand(reviewsCommand(p))
	return c
}

func run(ctx context.Context, p *command.Invocation, f *getFlags, args []string) error {
	r, err := f.Open(ctx, p)
	if err != nil {
		return err
	}
	r.WarnStandby(ctx)
	if len(args) == 0 {
		return (&controllerLister{Session: r}).run(ctx)
	}
	g := objectGetter{Managed: processes.Managed{Session: r, Flags: &f.Selection}, controllerArg: args[0]}
	if g.names = args[1:]; len(g.names) > 0 {
		g.Name = g.names[0] // A user who may get that object may name the controller.
	}
	return g.run(ctx)
}

// controllerLister lists controllers.
type controllerLister struct {
	*processes.Session
	// hidden is the warning about controllers that the user may not see.
	hidden processes.Warnings
}

func (r *controllerLister) run(ctx context.Context) error {
	t := r.Table(r.Stdout)
	warned, rollouts, versions := false, false, false
	return r.Follow(ctx, func(ctx context.Context) error {
		all, err := r.Controllers(ctx)
		if err != nil {
			return err
		}
		all, hidden := r.Client.Controllers(ctx, all)
		if !t.Started {
			rollouts = slices.ContainsFunc(all, func(c inspect.Controller) bool { return c.Rollout != nil })
			versions = slices.ContainsFunc(all, func(c inspect.Controller) bool { return c.LogicVersion != "" })
		}
		rows := lists.Map(all, func(c inspect.Controller) output.Row { return r.controllerRow(c, rollouts, versions, time.Now()) })
		if r.Output.Value == output.AsTable && len(rows) > 0 {
			abbreviate(rows, rows[0].Headers, all, output.TerminalWidth(r.Stdout))
		}
		if err := r.Client.TakeErr(); err != nil {
			return err
		}
		r.warnHidden(hidden)
		none := len(all) == 0 && hidden == 0 && r.IsTable()
		if none && !warned {
			fmt.Fprintln(r.Stderr, "No controllers found.")
		}
		if warned = none; len(all) == 0 && r.IsTable() {
			return nil
		}
		return r.Show(r.Stdout, t, rows, all, r.Watch)
	})
}

// warnHidden warns about hidden controllers when their number changes.
func (r *controllerLister) warnHidden(hidden int) {
	var problem error
	if hidden > 0 {
		problem = fmt.Errorf("%s hidden: you need permission to get the declaring object, or to list the kinds that it handles",
			output.Plural(hidden, "controller is", "controllers are"))
	}
	r.hidden.Print(r.Stderr, problem)
}

// controllerRow returns the row of a controller, with the columns ROLLOUT and VERSION if one of them has rollouts, or
// versions in responses.
func (r *controllerLister) controllerRow(c inspect.Controller, rollouts, versions bool, now time.Time) output.Row {
	number := strconv.Itoa
	last := lastError(&c, now)
	shown := last
	if r.Output.Value != output.AsWide {
		shown = diff.Shorten(last, 100)
	}
	columns := []output.Column{
		{Header: "NAME", Cell: c.Name},
		{Header: "PROCESS", Cell: c.Process, Wide: true},
		{Header: "READY", Cell: readiness(&c)},
		{Header: "KINDS", Cell: client.KindNames(c.Kinds), Wide: true},
		{Header: "CHILDREN", Cell: number(c.Owned), Wide: true},
		{Header: "OBJECTS", Cell: number(c.Objects)},
		{Header: "FAILING", Cell: number(c.Failing)},
		{Header: "CONFLICTING", Cell: number(c.Conflicting), Wide: true},
		{Header: "PAUSED", Cell: number(c.Paused), Wide: true},
		{Header: "SUSPENDED", Cell: strconv.FormatBool(c.Suspended)},
		{Header: "QUEUE", Cell: number(c.Queue.Queued)},
		{Header: "BACKOFF", Cell: number(c.Queue.BackingOff), Wide: true},
		{Header: "LAST ERROR", Cell: shown},
	}
	if rollouts {
		columns = slices.Insert(columns, len(columns)-1, output.Column{Header: "ROLLOUT", Cell: rolloutCell(&c)})
	}
	if versions {
		columns = slices.Insert(columns, len(columns)-1, output.Column{Header: "VERSION", Cell: c.LogicVersion})
	}
	headers, cells := r.Columns(columns...)
	same := strings.Join(cells[:len(cells)-1], "\t") + c.Refusal() + c.Outdated()
	if c.Last != nil && last != "" {
		same += c.Last.Object + c.Last.Message
	}
	return output.Row{Headers: headers, Cells: cells, Version: same, Key: c.Process + "\t" + c.Name, Value: c, Name: c.Name}
}

// lastError returns why a controller is not accepted, or its latest failure if that matters now, or why its
// latest code is not in use.
func lastError(c *inspect.Controller, now time.Time) string {
	if f := c.Last; c.Refusal() == "" && f != nil && (c.Failing > 0 || c.Ready().Status != "True") {
		return fmt.Sprintf("%s ago, %s", output.Ago(f.Time, now), f.Line())
	}
	return cmp.Or(c.Refusal(), c.Outdated())
}

// readiness returns the condition Ready of a controller, and the deletions that it holds.
func readiness(c *inspect.Controller) string {
	ready := cmp.Or(c.Ready().Status, "Unknown")
	if ready != "True" && c.Ready().Reason != "" {
		ready += " (" + c.Ready().Reason + ")"
	}
	if c.HeldDeletions > 0 {
		ready += " (" + output.Plural(c.HeldDeletions, "deletion", "deletions") + " held)"
	}
	return ready
}

// rolloutCell returns where the rollout of a controller is; "" if it has none.
func rolloutCell(c *inspect.Controller) string {
	s, reason := c.Rollout, c.Condition(setpoint.ConditionProgressing).Reason
	switch {
	case s == nil:
		return ""
	case s.Phase == setpoint.RolloutInShadow && reason != setpoint.ReasonRolloutShadow:
		return fmt.Sprintf("%s %d of %d (%s)", s.Phase, s.Shadow.Compared, s.Total, reason)
	case s.Phase == setpoint.RolloutInShadow:
		return fmt.Sprintf("%s %d of %d", s.Phase, s.Shadow.Compared, s.Total)
	case s.Phase != setpoint.RolloutStepping:
		return string(s.Phase)
	case reason == setpoint.ReasonRolloutStepping:
		return fmt.Sprintf("%d of %d", s.Moved, s.Total)
	}
	return fmt.Sprintf("%d of %d (%s)", s.Moved, s.Total, reason)
}

// abbreviate shortens the names in the first column if the headers do not fit into width
// otherwise. A width of 0 is unlimited.
func abbreviate(rows []output.Row, head []string, all []inspect.Controller, width int) {
	last := len(head) - 1
	needed := len(head[last])
	for i := range last {
		widest := len(head[i])
		for _, r := range rows {
			widest = max(widest, utf8.RuneCountInString(output.Clean(r.Cells[i])))
		}
		needed += widest + output.ColumnGap
	}
	if width == 0 || needed <= width {
		return
	}
	for i := range rows {
		rows[i].Cells[0] = processes.ShortName(rows[i].Name, all)
	}
}
