package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// objectGetter lists the objects of a controller.
type objectGetter struct {
	*session
	flags *getFlags
	// controllerArg is the name given by the user, selected the controller it matched, and
	// source the process that runs it.
	controllerArg string
	source        inspect.Source
	selected      inspect.Controller
	// name is the name of one object; "" lists all. names are several.
	name  string
	names []string
	// refused is the warning that the controller is not accepted.
	refused warnings
	// warnedHidden reports that the warning about hidden objects was printed.
	warnedHidden bool
}

// maxErrorWidth is the width of errors in tables.
const maxErrorWidth = 120

// pageSize is the number of objects per request.
const pageSize = 1000

func (g *objectGetter) run(ctx context.Context) error {
	t := g.table(g.stdout)
	return g.follow(ctx, func(ctx context.Context) error {
		var err error
		// While watching, another process may take over the controller.
		if g.selected, g.source, err = g.controller(ctx, g.controllerArg, g.objectName()); err != nil {
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
	case g.selected.AllReplicas && !g.flags.labels.IsZero():
		return usageError{fmt.Errorf("--selector: the reviews of %s have no labels", clean(g.selected.Name))}
	case g.selected.AllReplicas && len(g.names) > 1:
		return usageError{fmt.Errorf("unexpected argument %q: reviews are those of one object, or of all", g.names[1])}
	}
	return nil
}

// warnRefused warns that the controller, or its latest code, is not accepted.
func (g *objectGetter) warnRefused(ctx context.Context) {
	c := inspect.RedactController(g.selected, g.permissions.accessCheck(ctx))
	switch {
	case c.Refusal() != "":
		g.refused.print(g.stderr, fmt.Errorf("%s is not accepted: %s", c.Name, c.Refusal()))
	case c.Outdated() != "":
		g.refused.print(g.stderr, fmt.Errorf("%s runs older code: %s", c.Name, c.Outdated()))
	default:
		g.refused.print(g.stderr)
	}
}

// showAll prints the current objects.
func (g *objectGetter) showAll(ctx context.Context, t *table) error {
	if g.selected.AllReplicas {
		return g.showReviews(ctx, t)
	}
	g.warnRefused(ctx)
	if len(g.names) > 1 {
		return g.showNamed(ctx, t)
	}
	objects, total, err := g.objects(ctx)
	if err != nil {
		return err
	}
	rows := g.rows(objects)
	switch {
	case len(objects) == 0 && g.isTable():
		g.warnNone(total)
		return nil
	case g.name != "":
		return g.showOne(t, rows, objects)
	}
	return g.show(t, rows, objects)
}

// showNamed prints the objects of several names. Those that are missing are an error afterwards.
func (g *objectGetter) showNamed(ctx context.Context, t *table) error {
	all := []visibleState{}
	var problems []error
	for _, g.name = range g.names {
		found, err := g.namedKind(ctx)
		if err != nil {
			problems = append(problems, err)
		}
		all = appendNew(all, found)
	}
	if rows := g.rows(all); len(rows) > 0 || g.structured() {
		if err := g.show(t, rows, all); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// appendNew appends objects that are not among the others.
func appendNew(all, more []visibleState) []visibleState {
	return append(all, slices.DeleteFunc(more, func(s visibleState) bool {
		return slices.ContainsFunc(all, func(known visibleState) bool { return known.Ref == s.Ref })
	})...)
}

func (g *objectGetter) rows(of []visibleState) (all []row) {
	for _, o := range of {
		all = append(all, g.row(o, time.Now()))
	}
	return all
}

// showReviews prints the reviews of a controller that manages no objects.
func (g *objectGetter) showReviews(ctx context.Context, t *table) error {
	l := reviewLister{
		session: g.session, controllerArg: g.controllerArg, everywhere: g.flags.everywhere, warned: g.warnedHidden,
		filter: inspect.ReviewFilter{Text: strings.ToLower(g.flags.text)},
	}
	if err := l.setObject(ctx, g.name); err != nil {
		return err
	}
	if !g.replicas {
		g.replicas = true
		if err := g.discover(ctx); err != nil {
			return err
		}
	}
	replicas, err := l.replicasOf(ctx, g.selected.Name)
	if err == nil {
		err = l.show(ctx, t, replicas)
	}
	g.warnedHidden = l.warned
	return err
}

// showOne prints the objects of one name; a single one not as a list.
func (g *objectGetter) showOne(t *table, rows []row, objects []visibleState) error {
	if !t.started && len(objects) == 1 && g.structured() {
		t.started = true
		t.changed(rows)
		return g.printValue(g.stdout, objects[0])
	}
	return g.show(t, rows, objects)
}

// warnNone prints that nothing matched, and where to look.
func (g *objectGetter) warnNone(total int) {
	where, more := "in any namespace", ""
	namespaced := !g.flags.everywhere && g.query().Namespace != ""
	if namespaced {
		where = "in namespace " + g.target.Namespace
	}
	if total > 0 {
		more = fmt.Sprintf(" It manages %s in total.", plural(total, "object", "objects"))
	}
	if more != "" && namespaced {
		more = strings.TrimSuffix(more, ".") + "; use -A for all namespaces."
	}
	fmt.Fprintf(g.stderr, "%s has no matching objects %s.%s\n", clean(g.selected.Name), clean(where), more)
}

// query returns the filter of the list.
func (g *objectGetter) query() inspect.Query {
	q := inspect.Query{Text: strings.ToLower(g.flags.text), Labels: g.flags.labels, Sort: g.flags.sort.Value, Limit: pageSize}
	for _, state := range inspect.States() {
		if strings.EqualFold(string(state), g.flags.state.Value) {
			q.State = state
		}
	}
	anyNamespaced := slices.ContainsFunc(g.selected.Kinds, func(k object.Kind) bool { return k.Namespaced })
	if !g.flags.everywhere && anyNamespaced {
		q.Namespace = g.target.Namespace
	}
	return q
}

// objects returns the matching objects that the user may list, and their total number.
func (g *objectGetter) objects(ctx context.Context) ([]visibleState, int, error) {
	if g.name != "" {
		return g.named(ctx)
	}
	q := g.query()
	kinds, err := g.permissions.listable(ctx, g.selected.Kinds, q.Namespace)
	if err != nil {
		return nil, 0, err
	}
	g.warn(kinds)
	q.ReadableKinds = inspect.Readable(g.selected.Children, q.Namespace, g.permissions.canRead(ctx))
	return g.list(ctx, q, func(c *inspect.ObjectState) bool { return containsKind(kinds, c.Kind) })
}

// list returns the objects of all pages that are visible, and the total number of objects.
func (g *objectGetter) list(ctx context.Context, q inspect.Query, visible func(*inspect.ObjectState) bool) ([]visibleState, int, error) {
	all := []visibleState{}
	for {
		page, err := g.source.Objects(ctx, g.selected.Name, q)
		if err != nil {
			return nil, 0, err
		}
		for _, state := range page.Objects {
			if visible(&state) {
				all = append(all, g.permissions.state(ctx, state))
			}
		}
		q.Offset += len(page.Objects)
		if len(page.Objects) == 0 || q.Offset >= page.Matching {
			return all, page.Total, g.permissions.takeErr()
		}
	}
}

// warn warns once about kinds that are left out.
func (g *objectGetter) warn(listable []object.Kind) {
	left := slices.DeleteFunc(slices.Clone(g.selected.Kinds), func(k object.Kind) bool { return containsKind(listable, k) })
	if len(left) == 0 || g.warnedHidden {
		return
	}
	g.warnedHidden = true
	fmt.Fprintf(g.stderr, "warning: skipped %s: you cannot list them\n", clean(kindNames(left)))
}

// named returns the objects with that name, of any kind or of the one before the slash.
func (g *objectGetter) named(ctx context.Context) ([]visibleState, int, error) {
	all := []visibleState{}
	var refused error
	refs, err := g.refs(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, ref := range refs {
		if !g.permissions.can(ctx, "get", ref.Kind, ref.Namespace, ref.Name) {
			refused = userclient.Permission{Verb: "get", Resource: ref.Plural, Group: ref.Group,
				Namespace: ref.Namespace}.Forbidden(ref.Name)
			continue
		}
		states, err := g.source.States(ctx, ref)
		if err != nil {
			return nil, 0, err
		}
		states = slices.DeleteFunc(states, func(c inspect.ObjectState) bool { return c.Controller != g.selected.Name })
		all = append(all, g.permissions.states(ctx, states)...)
	}
	if err := g.permissions.takeErr(); err != nil {
		return nil, 0, err
	}
	switch {
	case len(all) > 0:
		return all, len(all), nil
	case refused != nil:
		return nil, 0, refused
	}
	return nil, 0, errorWithHint{fmt.Errorf("%s does not manage %q in namespace %s", g.selected.Name, g.name, g.target.Namespace),
		"-n selects another namespace; `setpoint get " + clean(g.selected.Name) + " -A` lists all objects"}
}

// namedKind is named, but rejects KIND/NAME of a kind that the controller does not manage.
func (g *objectGetter) namedKind(ctx context.Context) ([]visibleState, error) {
	if err := g.checkKind(ctx); err != nil {
		return nil, err
	}
	found, _, err := g.named(ctx)
	return found, err
}

// objectName returns the name without the kind before the slash.
func (g *objectGetter) objectName() string { return g.name[strings.Index(g.name, "/")+1:] }

// refs returns the objects that the name can refer to.
func (g *objectGetter) refs(ctx context.Context) ([]object.Ref, error) {
	name := g.objectName()
	var only object.Kind
	if word, _, split := strings.Cut(g.name, "/"); split {
		var err error
		if only, err = g.permissions.kind(ctx, word); err != nil {
			return nil, err
		}
	}
	var all []object.Ref
	for _, k := range g.selected.Kinds {
		if only.Kind != "" && (only.Group != k.Group || only.Kind != k.Kind) {
			continue
		}
		ref := object.Ref{Kind: k, Name: name}
		if k.Namespaced {
			ref.Namespace = g.target.Namespace
		}
		all = append(all, ref)
	}
	return all, nil
}

func (g *objectGetter) row(c visibleState, now time.Time) row {
	name := c.Name
	if len(g.selected.Kinds) > 1 {
		name = strings.ToLower(c.Kind.Kind) + "/" + name
	}
	state := string(c.State)
	if c.Deleting {
		state += ",Deleting"
	}
	problem := problemOf(c.ObjectState)
	if g.output.Value != asWide {
		problem = short(problem, maxErrorWidth)
	}
	headers, cells := g.columns(c.Namespace,
		column{header: "NAME", cell: name},
		column{header: "STATE", cell: state},
		column{header: "CHILDREN", cell: strconv.Itoa(c.Children)},
		column{header: "NEXT RUN", cell: in(c.Next, now)},
		column{header: "AGE", cell: ago(c.Created, now)},
		column{header: "LAST RUN", cell: ago(c.Ran, now), wide: true},
		column{header: "ATTEMPTS", cell: strconv.Itoa(c.Attempts), wide: true},
		column{header: "DELETING", cell: strconv.FormatBool(c.Deleting), wide: true},
		column{header: "UID", cell: c.UID, wide: true},
		column{header: "ERROR", cell: problem},
	)
	return row{
		headers: headers, cells: cells, value: c, name: nameArg(c.Ref),
		key:     cmp.Or(c.UID, c.Kind.Kind+"/"+c.Namespace+"/"+c.Name),
		version: fmt.Sprint(state, c.Error, c.Conflict, c.Children, c.Deleting, c.Name),
	}
}

// columns returns the headers and cells, with the namespace if objects of several are listed.
func (g *objectGetter) columns(namespace string, all ...column) (headers, cells []string) {
	if g.flags.everywhere {
		all = slices.Insert(all, 0, column{header: "NAMESPACE", cell: namespace})
	}
	return g.outputFlags.columns(all...)
}
