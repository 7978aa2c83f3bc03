package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// objectGetter shows the objects of a controller.
type objectGetter struct {
	*session
	*getFlags
	// controllerArg names the controller, of is what it means, and source who runs that.
	controllerArg string
	source        model.Source
	selected      model.Controller
	// name is that of one object; all if empty.
	name string
	// warnedHidden says that the user knows which objects are left out.
	warnedHidden bool
}

// maxErrorWidth is how much of an error a table shows.
const maxErrorWidth = 120

// pageSize is how many objects are asked for at once.
const pageSize = 1000

func (g *objectGetter) run(ctx context.Context) error {
	t := g.table(nil)
	return g.follow(ctx, func(ctx context.Context) error {
		var err error
		// While it is watched, it may come to be run by another process.
		if g.selected, g.source, err = g.controller(ctx, g.controllerArg, g.objectName()); err != nil {
			return err
		}
		return g.showAll(ctx, t)
	})
}

// showAll shows what is so now.
func (g *objectGetter) showAll(ctx context.Context, t *table) error {
	list, rowOf := g.objects, g.row
	t.headers = g.headers()
	if g.selected.AllReplicas {
		list, rowOf, t.headers = g.reviewed, g.reviewRow, g.reviewHeaders()
	}
	objects, total, err := list(ctx)
	if err != nil {
		return err
	}
	var rows []row
	for _, o := range objects {
		rows = append(rows, rowOf(o, time.Now()))
	}
	switch isTable := g.session.output.value == asTable || g.session.output.value == asWide; {
	case len(objects) == 0 && isTable:
		g.warnNone(total)
		return nil
	case g.name != "":
		return g.showOne(t, rows, objects)
	}
	return g.show(t, rows, objects)
}

// showOne shows the objects of one name: as themselves where there is one.
func (g *objectGetter) showOne(t *table, rows []row, objects []visibleState) error {
	if !t.started && len(objects) == 1 && (g.session.output.value == asJSON || g.session.output.value == asYAML) {
		t.started = true
		t.changed(rows)
		return encode(g.stdout, g.session.output.value, objects[0])
	}
	return g.show(t, rows, objects)
}

// warnNone says that nothing is to be shown, and where there may be something.
func (g *objectGetter) warnNone(total int) {
	has, verb, where, more := "has no such objects", "manages", "in all namespaces", ""
	if g.selected.AllReplicas {
		has, verb = "keeps no such reviews", "keeps those of"
	}
	namespaced := !g.everywhere && (g.selected.AllReplicas || g.query().Namespace != "")
	if namespaced {
		where = "in namespace " + g.target.Namespace
	}
	if total > 0 {
		more = fmt.Sprintf(" It %s %s in all.", verb, plural(total, "object", "objects"))
	}
	if more != "" && namespaced {
		more = strings.TrimSuffix(more, ".") + "; -A shows those of all namespaces."
	}
	fmt.Fprintf(g.stderr, "%s %s %s.%s\n", clean(g.selected.Name), has, clean(where), more)
}

// query is which objects are wanted.
func (g *objectGetter) query() model.Query {
	q := model.Query{Text: strings.ToLower(g.text), Sort: g.sort.value, Limit: pageSize}
	for _, state := range model.States() {
		if strings.EqualFold(string(state), g.state.value) {
			q.State = state
		}
	}
	anyNamespaced := slices.ContainsFunc(g.selected.Kinds, func(k model.Kind) bool { return k.Namespaced })
	if !g.everywhere && anyNamespaced {
		q.Namespace = g.target.Namespace
	}
	return q
}

// objects are those that are wanted and may be listed, and how many there are in all.
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
	q.ReadableKinds = model.Readable(g.selected.Children, q.Namespace, g.permissions.canRead(ctx))
	all := []visibleState{}
	for {
		page, err := g.source.Objects(ctx, g.selected.Name, q)
		if err != nil {
			return nil, 0, err
		}
		for _, care := range page.Objects {
			if containsKind(kinds, care.Kind) {
				all = append(all, g.permissions.state(ctx, care))
			}
		}
		q.Offset += len(page.Objects)
		if len(page.Objects) == 0 || q.Offset >= page.Matching {
			return all, page.Total, g.permissions.takeErr()
		}
	}
}

// warn says once which objects are left out.
func (g *objectGetter) warn(listable []model.Kind) {
	left := slices.DeleteFunc(slices.Clone(g.selected.Kinds), func(k model.Kind) bool { return containsKind(listable, k) })
	if len(left) == 0 || g.warnedHidden {
		return
	}
	g.warnedHidden = true
	fmt.Fprintf(g.stderr, "warning: you may not list %s, which are left out\n", clean(kindNames(left)))
}

// named are the objects of the controller with that name, of whichever kind, or of the
// one that is said before a slash.
func (g *objectGetter) named(ctx context.Context) ([]visibleState, int, error) {
	all := []visibleState{}
	var refused error
	refs, err := g.refs(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, ref := range refs {
		if !g.permissions.can(ctx, "get", ref.Kind, ref.Namespace, ref.Name) {
			refused = errorWithHint{fmt.Errorf("you may not see %s", nameOf(ref)), "it takes the right to get " + clean(kindNames([]model.Kind{ref.Kind}))}
			continue
		}
		states, err := g.source.States(ctx, ref)
		if err != nil {
			return nil, 0, err
		}
		states = slices.DeleteFunc(states, func(c model.ObjectState) bool { return c.Controller != g.selected.Name })
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
	return nil, 0, errorWithHint{fmt.Errorf("%s does not care for %q in namespace %s", g.selected.Name, g.name, g.target.Namespace), "-n names another namespace; `setpoint get " + clean(g.selected.Name) + " -A` shows all"}
}

// objectName is the name without the kind that may be said before a slash.
func (g *objectGetter) objectName() string { return g.name[strings.Index(g.name, "/")+1:] }

// refs are what may be meant by the name.
func (g *objectGetter) refs(ctx context.Context) ([]model.Ref, error) {
	name := g.objectName()
	var only model.Kind
	if word, _, split := strings.Cut(g.name, "/"); split {
		var err error
		if only, err = (&reader{g.permissions.api}).kind(ctx, word); err != nil {
			return nil, err
		}
	}
	var all []model.Ref
	for _, k := range g.selected.Kinds {
		if only.Kind != "" && (only.Group != k.Group || only.Kind != k.Kind) {
			continue
		}
		ref := model.Ref{Kind: k, Name: name}
		if k.Namespaced {
			ref.Namespace = g.target.Namespace
		}
		all = append(all, ref)
	}
	return all, nil
}

func (g *objectGetter) headers() []string {
	var head []string
	if g.everywhere {
		head = append(head, "NAMESPACE")
	}
	head = append(head, "NAME", "STATE", "CHILDREN", "NEXT RUN", "AGE", "ERROR")
	if g.session.output.value == asWide {
		head = slices.Insert(head, len(head)-1, "RAN", "ATTEMPTS", "DELETING", "UID")
	}
	return head
}

func (g *objectGetter) row(c visibleState, now time.Time) row {
	name := c.Name
	if len(g.selected.Kinds) > 1 {
		name = strings.ToLower(c.Kind.Kind) + "/" + name
	}
	var cells []string
	if g.everywhere {
		cells = append(cells, c.Namespace)
	}
	state := string(c.State)
	if c.Deleting {
		state += ",Deleting"
	}
	cells = append(cells, name, state, strconv.Itoa(c.Children), in(c.Next, now), ago(c.Created, now), short(problemOf(c.ObjectState), maxErrorWidth))
	if g.session.output.value == asWide {
		cells[len(cells)-1] = problemOf(c.ObjectState)
		cells = slices.Insert(cells, len(cells)-1, ago(c.Ran, now), strconv.Itoa(c.Attempts), strconv.FormatBool(c.Deleting), c.UID)
	}
	return row{
		cells: cells, value: c, name: nameArg(c.Ref),
		key:     cmp.Or(c.UID, c.Kind.Kind+"/"+c.Namespace+"/"+c.Name),
		version: fmt.Sprint(state, c.Error, c.Conflict, c.Children, c.Deleting, c.Name),
	}
}
