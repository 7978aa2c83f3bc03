package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// objectGetter lists the objects of a controller.
type objectGetter struct {
	processes.Managed
	// controllerArg and names are what the user named.
	controllerArg string
	names         []string
	// refused is the warning that the controller is not accepted.
	refused processes.Warnings
}

// maxErrorWidth is the width of errors in tables.
const maxErrorWidth = 120

func (g *objectGetter) run(ctx context.Context) error {
	t := g.Table(g.Stdout)
	return g.Follow(ctx, func(ctx context.Context) error {
		// While watching, another process may take over the controller.
		if err := g.SelectController(ctx, g.controllerArg); err != nil {
			return err
		}
		if err := g.checkSelection(); err != nil {
			return err
		}
		return g.showAll(ctx, t)
	})
}

// checkSelection rejects filters that do not apply to what is listed.
func (g *objectGetter) checkSelection() error {
	switch {
	case g.Selected.AllReplicas && !g.Flags.Labels.IsZero():
		return command.UsageErrorf("--selector: the reviews of %s have no labels", output.Clean(g.Selected.Name))
	case g.Selected.AllReplicas && len(g.names) > 1:
		return command.UsageErrorf("unexpected argument %q: reviews are those of one object, or of all", g.names[1])
	}
	return nil
}

// warnRefused warns that the controller, or its latest code, is not accepted.
func (g *objectGetter) warnRefused(ctx context.Context) {
	c := inspect.RedactController(g.Selected, g.Client.AccessCheck(ctx))
	var problem error
	switch {
	case c.Refusal() != "":
		problem = fmt.Errorf("%s is not accepted: %s", c.Name, c.Refusal())
	case c.Outdated() != "":
		problem = fmt.Errorf("%s runs older code: %s", c.Name, c.Outdated())
	}
	g.refused.Print(g.Stderr, problem)
}

// showAll prints the current objects.
func (g *objectGetter) showAll(ctx context.Context, t *output.Table) error {
	if g.Selected.AllReplicas {
		return g.showReviews(ctx, t)
	}
	g.warnRefused(ctx)
	if len(g.names) > 1 {
		return g.showNamed(ctx, t)
	}
	objects, total, err := g.List(ctx)
	if err != nil {
		return err
	}
	rows := g.rows(objects)
	switch {
	case len(objects) == 0 && g.IsTable():
		g.WarnNone(total)
		return nil
	case g.Name != "" && !t.Started && len(objects) == 1 && g.Structured(): // A single one of a name is no list.
		t.Started = true
		t.Changed(rows)
		return g.PrintValue(g.Stdout, objects[0])
	}
	return g.Show(g.Stdout, t, rows, objects, g.Watch)
}

// showNamed prints the objects of several names. Those that are missing are an error afterwards.
func (g *objectGetter) showNamed(ctx context.Context, t *output.Table) error {
	all := []client.VisibleState{}
	var problems []error
	for _, g.Name = range g.names {
		found, err := g.NamedKind(ctx)
		if err != nil {
			problems = append(problems, err)
		}
		all = processes.AppendNew(all, found)
	}
	if rows := g.rows(all); len(rows) > 0 || g.Structured() {
		if err := g.Show(g.Stdout, t, rows, all, g.Watch); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

func (g *objectGetter) rows(of []client.VisibleState) []output.Row {
	return lists.Map(of, func(o client.VisibleState) output.Row { return g.row(o, time.Now()) })
}

// showReviews prints the reviews of a controller that manages no objects.
func (g *objectGetter) showReviews(ctx context.Context, t *output.Table) error {
	l := reviewLister{
		Session: g.Session, controllerArg: g.controllerArg, everywhere: g.Flags.Everywhere, warned: g.WarnedHidden,
		filter: inspect.ReviewFilter{Text: strings.ToLower(g.Flags.Text)},
	}
	if err := l.setObject(ctx, g.Name); err != nil {
		return err
	}
	if !g.Replicas {
		g.Replicas = true
		if err := g.Discover(ctx); err != nil {
			return err
		}
	}
	replicas, err := l.replicasOf(ctx, g.Selected.Name)
	if err == nil {
		err = l.show(ctx, t, replicas)
	}
	g.WarnedHidden = l.warned
	return err
}

func (g *objectGetter) row(c client.VisibleState, now time.Time) output.Row {
	name := c.Name
	if len(g.Selected.Kinds) > 1 {
		name = strings.ToLower(c.Kind.Kind) + "/" + name
	}
	state := string(c.State)
	if c.Deleting {
		state += ",Deleting"
	}
	problem := c.Problem()
	if g.Output.Value != output.AsWide {
		problem = diff.Shorten(problem, maxErrorWidth)
	}
	columns := []output.Column{
		{Header: "NAME", Cell: name},
		{Header: "STATE", Cell: state},
		{Header: "CHILDREN", Cell: strconv.Itoa(c.Children)},
		{Header: "NEXT RUN", Cell: output.In(c.Next, now)},
		{Header: "AGE", Cell: output.Ago(c.Created, now)},
		{Header: "LAST RUN", Cell: output.Ago(c.Ran, now), Wide: true},
		{Header: "ATTEMPTS", Cell: strconv.Itoa(c.Attempts), Wide: true},
		{Header: "DELETING", Cell: strconv.FormatBool(c.Deleting), Wide: true},
		{Header: "UID", Cell: c.UID, Wide: true},
		{Header: "ERROR", Cell: problem},
	}
	if g.Flags.Everywhere {
		columns = slices.Insert(columns, 0, output.Column{Header: "NAMESPACE", Cell: c.Namespace})
	}
	headers, cells := g.Columns(columns...)
	return output.Row{
		Headers: headers, Cells: cells, Value: c, Name: client.Arg(c.Ref),
		Key:     cmp.Or(c.UID, c.Kind.Kind+"/"+c.Namespace+"/"+c.Name),
		Version: fmt.Sprint(state, c.Error, c.Conflict, c.Children, c.Deleting, c.Name),
	}
}
