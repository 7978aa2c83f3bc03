package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// getFlags are the flags of commands about the objects of a controller.
type getFlags struct {
	readFlags
	everywhere bool
	labels     inspect.LabelSelector
	state      *flags.Choice
	sort       *flags.Choice
	text       string
}

// registerSelection adds the flags that select objects.
func (f *getFlags) registerSelection(c *cobra.Command) {
	set := c.Flags()
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "the objects of all namespaces")
	set.VarP(&f.labels, "selector", "l", "only objects with these labels, such as app=web,tier!=test")
	addChoice(c, f.state, "state", "", "only objects in this state")
	set.StringVar(&f.text, "containing", "", "only objects with this `text` in the name, the namespace or the error")
}

func newGetFlags() *getFlags {
	return &getFlags{
		readFlags: readFlags{outputFlags: newOutputFlags(asTable, asWide, asName, asJSON, asYAML)},
		state:     flags.OneOf("any", "failing", "conflicting", "queued", "unknown", "paused", "synced"),
		sort:      flags.OneOf("state", "name", "created", "run", "children"),
	}
}

func (p *program) getCommand() *cobra.Command {
	f := newGetFlags()
	c := &cobra.Command{
		Use:   "get [CONTROLLER] [NAME…]",
		Short: "List controllers, or the objects of one",
		Long: `List the running controllers, or the objects managed by one of them, sorted by
severity.

CONTROLLER is a name of the first column, KIND/NAME of the object that declares it, or
the part after the slash if that is unambiguous.

` + kindHelp + `
` + discoveryHelp,
		Example: `  setpoint get                               # the controllers
  setpoint get teams                         # the objects of one, in this namespace
  setpoint get teams -A --state failing      # failing objects in all namespaces
  setpoint get teams -l tier=gold -o name    # their names
  setpoint get teams red -n shop -o yaml     # one object
  setpoint get teams red blue -n shop        # two
  setpoint get reviews                       # what admission webhooks decided
  setpoint get teams -o custom-columns=NAME:.name,STATE:.state,ERROR:.error
  setpoint get -w                            # watch for changes`,
		Args: func(_ *cobra.Command, args []string) error {
			return checkNames(args[min(1, len(args)):])
		},
		ValidArgsFunction: completeRunning(&f.readFlags, runningWords{objects: math.MaxInt}),
		RunE:              func(c *cobra.Command, args []string) error { return p.get(c.Context(), f, args) },
	}
	f.register(c)
	f.registerSelection(c)
	addChoice(c, f.sort, "sort-by", "", "sort order of objects")
	c.AddCommand(p.getReviewsCommand())
	return c
}

func (p *program) get(ctx context.Context, f *getFlags, args []string) error {
	r, err := f.open(ctx, p)
	if err != nil {
		return err
	}
	r.warnStandby(ctx)
	if len(args) == 0 {
		return r.getControllers(ctx)
	}
	g := objectGetter{session: r, flags: f, controllerArg: args[0]}
	if g.names = args[1:]; len(g.names) > 0 {
		g.name = g.names[0] // A user who may get that object may name the controller.
	}
	return g.run(ctx)
}

// warnStandby warns about standby processes and names their leader.
func (r *session) warnStandby(ctx context.Context) {
	call := func(ctx context.Context, s inspect.Source) (inspect.Process, error) { return s.Process(ctx) }
	for _, a := range inspect.QueryAll(ctx, r.timeouts, r.sources, call) {
		if a.Err == nil && a.Value.IsStandby() {
			fmt.Fprintln(r.stderr, "warning:", clean(a.Value.Caveat()))
		}
	}
}

// controllers returns the controllers of all processes.
func (r *session) controllers(ctx context.Context) ([]inspect.Controller, error) {
	all := []inspect.Controller{}
	run, err := r.runningControllers(ctx)
	for _, each := range run {
		all = append(all, each.Controller)
	}
	return all, err
}

// runningController is a controller and the process that runs it.
type runningController struct {
	inspect.Controller
	source inspect.Source
	// standby reports that another process is the leader.
	standby bool
}

// runningControllers returns the controllers of all processes. A controller of the leader
// hides those of its standbys.
func (r *session) runningControllers(ctx context.Context) ([]runningController, error) {
	all, err := r.controllersOfReplicas(ctx)
	leads := map[string]bool{}
	for _, one := range all {
		leads[one.Name] = leads[one.Name] || !one.standby
	}
	return slices.DeleteFunc(all, func(one runningController) bool { return one.standby && leads[one.Name] }), err
}

// controllersOfReplicas is runningControllers with those of all standbys.
func (r *session) controllersOfReplicas(ctx context.Context) (all []runningController, err error) {
	results, err := queryAll(ctx, r, func(ctx context.Context, s inspect.Source) ([]runningController, error) {
		controllers, err := s.Controllers(ctx)
		if err != nil {
			return nil, err
		}
		process, err := s.Process(ctx)
		all := make([]runningController, 0, len(controllers))
		for _, c := range controllers {
			all = append(all, runningController{c, s, err == nil && process.IsStandby()})
		}
		return all, nil
	})
	for _, a := range results {
		all = append(all, a.Value...)
	}
	return all, err
}

func controllersOf(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) {
	return s.Controllers(ctx)
}

// lookup searches for the controller that a user named, perhaps with one of its objects.
type lookup struct {
	word, object string
	found        []inspect.Controller
	sources      []inspect.Source
	// known are the names of the visible controllers, hidden is the number of others.
	known  []string
	hidden int
}

// controller returns the controller of that name and its process, if the user may see the
// controller or, if object is not "", that object.
func (r *session) controller(ctx context.Context, name, object string) (inspect.Controller, inspect.Source, error) {
	run, err := r.runningControllers(ctx)
	if err != nil {
		return inspect.Controller{}, nil, err
	}
	word, err := r.controllerName(ctx, name, run)
	if err != nil {
		return inspect.Controller{}, nil, err
	}
	l := lookup{word: word, object: object}
	for _, each := range run {
		r.match(ctx, &l, each.Controller, each.source)
	}
	if err := r.permissions.takeErr(); err != nil {
		return inspect.Controller{}, nil, err
	}
	if len(l.found) == 1 {
		return l.found[0], l.sources[0], nil
	}
	return inspect.Controller{}, nil, l.err()
}

// match adds a controller to the result if it matches.
func (r *session) match(ctx context.Context, l *lookup, c inspect.Controller, by inspect.Source) {
	seen := inspect.CanView(&c, r.permissions.accessCheck(ctx))
	if seen {
		l.known = append(l.known, c.Name)
	} else {
		l.hidden++
	}
	if matchesController(l.word, c) && (seen || r.permissions.canSeeAny(ctx, c.Kinds, r.target.Namespace, l.object)) {
		l.found, l.sources = append(l.found, c), append(l.sources, by)
	}
}

// err explains why not exactly one controller matched.
func (l *lookup) err() error {
	switch {
	case len(l.found) > 1:
		var names []string
		for i, c := range l.found {
			names = append(names, c.Name+" in "+l.sources[i].Name())
		}
		return errorWithHint{fmt.Errorf("controller %q is ambiguous", l.word), "use one of " + clean(strings.Join(names, ", ")) +
			"; --process selects a process"}
	case l.hidden > 0:
		hint := fmt.Sprintf("there %s, and %d that you cannot get; -n NAMESPACE finds those whose objects you can list there",
			thereAre(l.known), l.hidden)
		return errorWithHint{fmt.Errorf("no controller %q that you can get", l.word), hint}
	}
	return errorWithHint{fmt.Errorf("no controller %q", l.word), "there " + thereAre(l.known)}
}

// thereAre returns a list for a sentence that starts with "there".
func thereAre(names []string) string {
	if len(names) == 0 {
		return "are none"
	}
	return "are " + clean(strings.Join(names, ", "))
}

// controllerName returns the name of the controller that KIND/NAME declares, or word
// itself.
func (r *session) controllerName(ctx context.Context, word string, run []runningController) (string, error) {
	isName := func(c runningController) bool { return c.Name == word }
	if slices.ContainsFunc(run, isName) {
		return word, nil // Names of controllers in Go programs contain a slash too.
	}
	kind, name, is, err := r.permissions.controllerArg(ctx, word)
	switch {
	case errors.Is(err, failure.ErrNotFound):
		return word, nil
	case err != nil || !is:
		return word, err
	}
	return kind.Name + "/" + name, nil
}

// matchesController reports whether word is the name of a controller, or the part of it
// after the slash.
func matchesController(word string, c inspect.Controller) bool {
	_, last, split := strings.Cut(c.Name, "/")
	return word == c.Name || split && word == last
}

func (r *session) getControllers(ctx context.Context) error {
	t := r.table(r.stdout)
	warned, rollouts, versions := false, false, false
	return r.follow(ctx, func(ctx context.Context) error {
		all, err := r.controllers(ctx)
		if err != nil {
			return err
		}
		all, hidden := r.permissions.controllers(ctx, all)
		if !t.started {
			rollouts = slices.ContainsFunc(all, func(c inspect.Controller) bool { return c.Rollout != nil })
			versions = slices.ContainsFunc(all, func(c inspect.Controller) bool { return c.LogicVersion != "" })
		}
		var rows []row
		for _, c := range all {
			rows = append(rows, r.controllerRow(c, rollouts, versions, time.Now()))
		}
		if r.output.Value == asTable && len(rows) > 0 {
			abbreviate(rows, rows[0].headers, all, terminalWidth(r.stdout))
		}
		if err := r.permissions.takeErr(); err != nil {
			return err
		}
		r.warnHidden(hidden)
		none := len(all) == 0 && hidden == 0 && r.isTable()
		if none && !warned {
			fmt.Fprintln(r.stderr, "No controllers found.")
		}
		if warned = none; len(all) == 0 && r.isTable() {
			return nil
		}
		return r.show(t, rows, all)
	})
}

// warnHidden warns about hidden controllers when their number changes.
func (r *session) warnHidden(hidden int) {
	if hidden == 0 {
		r.hidden.print(r.stderr)
		return
	}
	r.hidden.print(r.stderr, fmt.Errorf("%s hidden: you need permission to get the declaring object, or to list the kinds that it handles",
		plural(hidden, "controller is", "controllers are")))
}

// show prints all rows, of which tables have at least one, the first time, then those that have changed.
func (r *session) show(t *table, rows []row, all any) error {
	if !r.structured() {
		return r.printRows(r.stdout, t, rows)
	}
	first := !t.started
	t.started = true
	changed := t.changed(rows)
	if first && (!r.watch || !r.isTemplate()) {
		return r.printValue(r.stdout, map[string]any{"items": all})
	}
	// As with kubectl, a template for a watch is one for each item.
	for _, each := range changed {
		if err := r.printValue(r.stdout, each.value); err != nil {
			return err
		}
	}
	return nil
}

// controllerRow returns the row of a controller, with the columns ROLLOUT and VERSION if one of them has rollouts, or
// versions in responses.
func (r *session) controllerRow(c inspect.Controller, rollouts, versions bool, now time.Time) row {
	number := strconv.Itoa
	last := lastError(&c, now)
	shown := last
	if r.output.Value != asWide {
		shown = short(last, 100)
	}
	columns := []column{
		{header: "NAME", cell: c.Name},
		{header: "PROCESS", cell: c.Process, wide: true},
		{header: "READY", cell: readiness(&c)},
		{header: "KINDS", cell: kindNames(c.Kinds), wide: true},
		{header: "CHILDREN", cell: number(c.Owned), wide: true},
		{header: "OBJECTS", cell: number(c.Objects)},
		{header: "FAILING", cell: number(c.Failing)},
		{header: "CONFLICTING", cell: number(c.Conflicting), wide: true},
		{header: "PAUSED", cell: number(c.Paused), wide: true},
		{header: "SUSPENDED", cell: strconv.FormatBool(c.Suspended)},
		{header: "QUEUE", cell: number(c.Queue.Queued)},
		{header: "BACKOFF", cell: number(c.Queue.BackingOff), wide: true},
		{header: "LAST ERROR", cell: shown},
	}
	if rollouts {
		columns = slices.Insert(columns, len(columns)-1, column{header: "ROLLOUT", cell: rolloutCell(&c)})
	}
	if versions {
		columns = slices.Insert(columns, len(columns)-1, column{header: "VERSION", cell: c.LogicVersion})
	}
	headers, cells := r.columns(columns...)
	same := strings.Join(cells[:len(cells)-1], "\t") + c.Refusal() + c.Outdated()
	if c.Last != nil && last != "" {
		same += c.Last.Object + c.Last.Message
	}
	return row{headers: headers, cells: cells, version: same, key: c.Process + "\t" + c.Name, value: c, name: c.Name}
}

// lastError returns why a controller is not accepted, or its latest failure if that matters now, or why its
// latest code is not in use.
func lastError(c *inspect.Controller, now time.Time) string {
	if f := c.Last; c.Refusal() == "" && f != nil && (c.Failing > 0 || c.Ready().Status != "True") {
		return fmt.Sprintf("%s ago, %s", ago(f.Time, now), failureLine(f))
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
		ready += " (" + plural(c.HeldDeletions, "deletion", "deletions") + " held)"
	}
	return ready
}

// failureLine returns the message of a failure, with its object if that is known.
func failureLine(f *inspect.Failure) string {
	if f.Object == "" {
		return f.Message
	}
	return f.Object + ": " + f.Message
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

// kindNames returns kinds as command-line arguments.
func kindNames(kinds []object.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Resource())
	}
	return strings.Join(names, ",")
}
