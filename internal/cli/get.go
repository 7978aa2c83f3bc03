package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// getFlags are what `setpoint get` can be told.
type getFlags struct {
	readFlags
	everywhere bool
	state      *choice
	sort       *choice
	text       string
}

// table is one with a head.
func (r *session) table(head []string) *table {
	t := &table{headers: head, color: wantsColor(r.stdout), noHeaders: r.noHeaders}
	if r.output.value == asTable {
		t.width = terminalWidth(r.stdout)
	}
	return t
}

func newGetFlags() *getFlags {
	return &getFlags{
		readFlags: readFlags{output: oneOf(asTable, asWide, asName, asJSON, asYAML)},
		state:     oneOf("any", "failing", "unsettled", "waiting", "unknown", "paused", "well"),
		sort:      oneOf("state", "name", "created", "run", "children"),
	}
}

func (p *program) getCommand() *cobra.Command {
	f := newGetFlags()
	c := &cobra.Command{
		Use:   "get [CONTROLLER] [NAME]",
		Short: "Show how controllers and their objects are doing",
		Long: `Show the controllers that run, and how they are doing; or the objects in the
care of one of them, those first that need somebody.

A controller is named as in the first column, by KIND/NAME of the object that
declares it, or by NAME alone where no other one has that name.

` + kindHelp + `
` + discoveryHelp,
		Example: `  setpoint get                               # the controllers
  setpoint get teams                         # the objects of one, in this namespace
  setpoint get teams -A --state failing      # those that fail, in all namespaces
  setpoint get teams red -n shop -o yaml     # one of them
  setpoint get -w                            # go on, and show what changes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usageError{fmt.Errorf("unexpected argument %q", args[2])}
			}
			return nil
		},
		ValidArgsFunction: p.completeRunning(f, false),
		RunE:              func(c *cobra.Command, args []string) error { return p.get(c.Context(), f, args) },
	}
	f.register(c)
	c.Flags().BoolVarP(&f.everywhere, "all-namespaces", "A", false, "objects of all namespaces")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave out the headings of tables")
	f.state.flag(c, "state", "", "only objects of that state")
	f.sort.flag(c, "sort", "", "in what order")
	c.Flags().StringVar(&f.text, "containing", "", "only objects with that `text` in the name, the namespace or the error")
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
	g := objectGetter{session: r, getFlags: f, controllerArg: args[0]}
	if len(args) == 2 {
		g.name = args[1]
	}
	return g.run(ctx)
}

// warnStandby says which processes do not do the work, and who does.
func (r *session) warnStandby(ctx context.Context) {
	ask := func(ctx context.Context, s model.Source) (model.Process, error) { return s.Process(ctx) }
	for _, a := range model.QueryAll(ctx, r.timeouts, r.sources, ask) {
		if a.Err == nil && a.Value.IsStandby() {
			fmt.Fprintln(r.stderr, "warning:", clean(a.Value.Caveat()))
		}
	}
}

// controllers are those of all processes.
func (r *session) controllers(ctx context.Context) ([]model.Controller, error) {
	all := []model.Controller{}
	run, err := r.runningControllers(ctx)
	for _, each := range run {
		all = append(all, each.Controller)
	}
	return all, err
}

// runningController is a controller and the process that runs it.
type runningController struct {
	model.Controller
	source model.Source
	// standby says that another process does the work.
	standby bool
}

// runningControllers are the controllers of all processes. One that a process leads is left out of
// those that stand by for it.
func (r *session) runningControllers(ctx context.Context) ([]runningController, error) {
	results, err := queryAll(ctx, r, func(ctx context.Context, s model.Source) ([]runningController, error) {
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
	var all []runningController
	leads := map[string]bool{}
	for _, a := range results {
		for _, one := range a.Value {
			all = append(all, one)
			leads[one.Name] = leads[one.Name] || !one.standby
		}
	}
	return slices.DeleteFunc(all, func(one runningController) bool { return one.standby && leads[one.Name] }), err
}

func controllersOf(ctx context.Context, s model.Source) ([]model.Controller, error) {
	return s.Controllers(ctx)
}

// lookup is a controller that is looked for by what users write, and maybe by one of its
// objects.
type lookup struct {
	word, object string
	found        []model.Controller
	sources      []model.Source
	// known are the names of all that the user may know of, hidden how many others run.
	known  []string
	hidden int
}

// controller finds the one that is named, and who runs it, among those that the user may
// know of, or some object of which they may see. It is object that is asked for, if not "".
func (r *session) controller(ctx context.Context, name, object string) (model.Controller, model.Source, error) {
	run, err := r.runningControllers(ctx)
	if err != nil {
		return model.Controller{}, nil, err
	}
	word, err := r.controllerName(ctx, name, run)
	if err != nil {
		return model.Controller{}, nil, err
	}
	l := lookup{word: word, object: object}
	for _, each := range run {
		r.match(ctx, &l, each.Controller, each.source)
	}
	if err := r.permissions.takeErr(); err != nil {
		return model.Controller{}, nil, err
	}
	if len(l.found) == 1 {
		return l.found[0], l.sources[0], nil
	}
	return model.Controller{}, nil, l.err()
}

// match sees whether a controller is the one.
func (r *session) match(ctx context.Context, l *lookup, c model.Controller, by model.Source) {
	seen := model.CanView(&c, r.permissions.accessCheck(ctx))
	if seen {
		l.known = append(l.known, c.Name)
	} else {
		l.hidden++
	}
	if matchesController(l.word, c) && (seen || r.permissions.canSeeAny(ctx, c.Kinds, r.target.Namespace, l.object)) {
		l.found, l.sources = append(l.found, c), append(l.sources, by)
	}
}

// err says why there is no such controller, or not one.
func (l *lookup) err() error {
	switch {
	case len(l.found) > 1:
		var names []string
		for i, c := range l.found {
			names = append(names, c.Name+" of "+l.sources[i].Name())
		}
		return errorWithHint{fmt.Errorf("%q may be several", l.word), "write one of " + clean(strings.Join(names, ", ")) + "; --process says of which process"}
	case l.hidden > 0:
		hint := fmt.Sprintf("there %s, and %d that you may not see; one is found by who may list its objects in the namespace that -n names", thereAre(l.known), l.hidden)
		return errorWithHint{fmt.Errorf("no process runs a controller %q that you may see", l.word), hint}
	}
	return errorWithHint{fmt.Errorf("no process runs a controller %q", l.word), "there " + thereAre(l.known)}
}

// thereAre is a list in a sentence.
func thereAre(names []string) string {
	if len(names) == 0 {
		return "are none"
	}
	return "are " + clean(strings.Join(names, ", "))
}

// controllerName is the name of the controller that KIND/NAME declares, and any other word as
// it is.
func (r *session) controllerName(ctx context.Context, word string, run []runningController) (string, error) {
	isName := func(c runningController) bool { return c.Name == word }
	if slices.ContainsFunc(run, isName) {
		return word, nil // Controllers of Go programs have a slash in their names, too.
	}
	kind, name, is, err := (&reader{r.permissions.api}).controllerArg(ctx, word)
	switch {
	case errors.Is(err, model.ErrNotFound):
		return word, nil
	case err != nil || !is:
		return word, err
	}
	return kind.Name + "/" + name, nil
}

// matchesController says whether a controller is meant by a word: its name, or the end of it behind the
// slash.
func matchesController(word string, c model.Controller) bool {
	_, last, split := strings.Cut(c.Name, "/")
	return word == c.Name || split && word == last
}

func (r *session) getControllers(ctx context.Context) error {
	t := r.table(r.controllerHeaders())
	told := false // That there are none.
	return r.follow(ctx, func(ctx context.Context) error {
		all, err := r.controllers(ctx)
		if err != nil {
			return err
		}
		all, hidden := r.permissions.controllers(ctx, all)
		var rows []row
		for _, c := range all {
			rows = append(rows, r.controllerRow(c, time.Now()))
		}
		if r.output.value == asTable {
			abbreviate(rows, t.headers, all, terminalWidth(r.stdout))
		}
		if err := r.permissions.takeErr(); err != nil {
			return err
		}
		r.warnHidden(hidden)
		isTable := r.output.value == asTable || r.output.value == asWide
		none := len(all) == 0 && hidden == 0 && isTable
		if none && !told {
			fmt.Fprintln(r.stderr, "No controllers run.")
		}
		if told = none; len(all) == 0 && isTable {
			return nil
		}
		return r.show(t, rows, all)
	})
}

// warnHidden says how many controllers are left out, if there are others than before.
func (r *session) warnHidden(hidden int) {
	if hidden == 0 {
		r.hidden.print(r.stderr)
		return
	}
	r.hidden.print(r.stderr, fmt.Errorf("%s that you may not see: it takes the right to get the object that declares one, or to list what it handles",
		plural(hidden, "controller runs", "controllers run")))
}

// show writes rows as it was asked for: all at first, then those that have changed.
func (r *session) show(t *table, rows []row, all any) error {
	switch r.output.value {
	case asTable, asWide:
		return t.write(r.stdout, rows)
	case asName:
		for _, each := range t.changed(rows) {
			fmt.Fprintln(r.stdout, clean(each.name))
		}
		return nil
	}
	first := !t.started
	t.started = true
	changed := t.changed(rows)
	if first {
		return encode(r.stdout, r.output.value, map[string]any{"items": all})
	}
	for _, each := range changed {
		if err := encode(r.stdout, r.output.value, each.value); err != nil {
			return err
		}
	}
	return nil
}

func (r *session) controllerHeaders() []string {
	head := []string{"NAME", "READY", "OBJECTS", "FAILING", "SUSPENDED", "QUEUE", "LAST ERROR"}
	if r.output.value == asWide {
		head = []string{"NAME", "PROCESS", "READY", "KINDS", "CHILDREN", "OBJECTS", "FAILING", "UNSETTLED", "PAUSED", "SUSPENDED", "QUEUE", "RETRYING", "LAST ERROR"}
	}
	return head
}

func (r *session) controllerRow(c model.Controller, now time.Time) row {
	last, refused := "", c.Refusal()
	switch f := c.Last; {
	case refused != "":
		last = refused
	case f != nil && (c.Failing > 0 || c.Ready().Status != "True"):
		last = fmt.Sprintf("%s ago, %s", ago(f.Time, now), failureLine(f))
	}
	ready := c.Ready().Status
	if ready == "" {
		ready = "Unknown"
	}
	if ready != "True" && c.Ready().Reason != "" {
		ready += " (" + c.Ready().Reason + ")"
	}
	if c.HeldDeletions > 0 {
		ready += " (" + plural(c.HeldDeletions, "deletion", "deletions") + " held)"
	}
	suspended := strconv.FormatBool(c.Suspended)
	number := strconv.Itoa
	cells := []string{c.Name, ready, number(c.Objects), number(c.Failing), suspended, number(c.Queue.Queued), last}
	if r.output.value == asWide {
		cells = []string{
			c.Name, c.Process, ready, kindNames(c.Kinds), number(c.Owned), number(c.Objects), number(c.Failing), number(c.Conflicting),
			number(c.Paused), suspended, number(c.Queue.Queued), number(c.Queue.BackingOff), last,
		}
	} else {
		cells[6] = short(last, 100)
	}
	same := strings.Join(cells[:len(cells)-1], "\t") + refused
	if c.Last != nil && last != "" {
		same += c.Last.Object + c.Last.Message
	}
	return row{cells: cells, version: same, key: c.Process + "\t" + c.Name, value: c, name: c.Name}
}

// failureLine is what went wrong, and with which object where that may be said.
func failureLine(f *model.Failure) string {
	if f.Object == "" {
		return f.Message
	}
	return f.Object + ": " + f.Message
}

// kindNames are kinds as arguments name them.
func kindNames(kinds []model.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Resource())
	}
	return strings.Join(names, ",")
}
