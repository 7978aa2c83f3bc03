package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// getting shows the objects of a controller.
type getting struct {
	*reading
	*getFlags
	// word names the controller, of is what it means, and source who runs that.
	word   string
	source inspect.Source
	of     inspect.Controller
	// name is that of one object; all if empty.
	name string
	// warned says that the user knows which objects are left out.
	warned bool
}

// maxTrouble is how much of an error a table shows.
const maxTrouble = 120

// pageSize is how many objects are asked for at once.
const pageSize = 1000

func (g *getting) run(ctx context.Context) error {
	t := g.table(nil)
	return g.follow(ctx, func(ctx context.Context) error {
		var err error
		// While it is watched, it may come to be run by another process.
		if g.of, g.source, err = g.controller(ctx, g.word, g.objectName()); err != nil {
			return err
		}
		return g.once(ctx, t)
	})
}

// once shows what is so now.
func (g *getting) once(ctx context.Context, t *table) error {
	list, rowOf := g.objects, g.row
	t.head = g.head()
	if g.of.Everywhere {
		list, rowOf, t.head = g.reviewed, g.reviewRow, g.reviewHead()
	}
	objects, total, err := list(ctx)
	if err != nil {
		return err
	}
	var rows []row
	for _, o := range objects {
		rows = append(rows, rowOf(o, time.Now()))
	}
	switch isTable := g.reading.output.value == asTable || g.reading.output.value == wide; {
	case len(objects) == 0 && isTable:
		g.tellNone(total)
		return nil
	case g.name != "":
		return g.showOne(t, rows, objects)
	}
	return g.show(t, rows, objects)
}

// showOne shows the objects of one name: as themselves where there is one.
func (g *getting) showOne(t *table, rows []row, objects []readable) error {
	if !t.begun && len(objects) == 1 && (g.reading.output.value == asJSON || g.reading.output.value == asYAML) {
		t.begun = true
		t.news(rows)
		return encode(g.stdout, g.reading.output.value, objects[0])
	}
	return g.show(t, rows, objects)
}

// tellNone says that nothing is to be shown, and where there may be something.
func (g *getting) tellNone(total int) {
	has, verb, where, more := "has no such objects", "manages", "in all namespaces", ""
	if g.of.Everywhere {
		has, verb = "keeps no such reviews", "keeps those of"
	}
	namespaced := !g.everywhere && (g.of.Everywhere || g.query().Namespace != "")
	if namespaced {
		where = "in namespace " + g.found.Namespace
	}
	if total > 0 {
		more = fmt.Sprintf(" It %s %s in all.", verb, plural(total, "object", "objects"))
	}
	if more != "" && namespaced {
		more = strings.TrimSuffix(more, ".") + "; -A shows those of all namespaces."
	}
	fmt.Fprintf(g.stderr, "%s %s %s.%s\n", clean(g.of.Name), has, clean(where), more)
}

// query is which objects are wanted.
func (g *getting) query() inspect.Query {
	q := inspect.Query{Text: strings.ToLower(g.text), Sort: g.sort.value, Limit: pageSize}
	for _, state := range inspect.States() {
		if strings.EqualFold(string(state), g.state.value) {
			q.State = state
		}
	}
	anyNamespaced := slices.ContainsFunc(g.of.Kinds, func(k inspect.Kind) bool { return k.Namespaced })
	if !g.everywhere && anyNamespaced {
		q.Namespace = g.found.Namespace
	}
	return q
}

// objects are those that are wanted and may be listed, and how many there are in all.
func (g *getting) objects(ctx context.Context) ([]readable, int, error) {
	if g.name != "" {
		return g.named(ctx)
	}
	q := g.query()
	kinds, err := g.rights.listable(ctx, g.of.Kinds, q.Namespace)
	if err != nil {
		return nil, 0, err
	}
	g.warn(kinds)
	q.Reads = inspect.Readable(g.of.Children, q.Namespace, g.rights.reads(ctx))
	all := []readable{}
	for {
		page, err := g.source.Objects(ctx, g.of.Name, q)
		if err != nil {
			return nil, 0, err
		}
		for _, care := range page.Objects {
			if isAmong(kinds, care.Kind) {
				all = append(all, g.rights.care(ctx, care))
			}
		}
		q.Offset += len(page.Objects)
		if len(page.Objects) == 0 || q.Offset >= page.Matching {
			return all, page.Total, g.rights.sure()
		}
	}
}

// warn says once which objects are left out.
func (g *getting) warn(listable []inspect.Kind) {
	left := slices.DeleteFunc(slices.Clone(g.of.Kinds), func(k inspect.Kind) bool { return isAmong(listable, k) })
	if len(left) == 0 || g.warned {
		return
	}
	g.warned = true
	fmt.Fprintf(g.stderr, "warning: you may not list %s, which are left out\n", clean(kindNames(left)))
}

// named are the objects of the controller with that name, of whichever kind, or of the
// one that is said before a slash.
func (g *getting) named(ctx context.Context) ([]readable, int, error) {
	all := []readable{}
	var refused error
	refs, err := g.refs(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, ref := range refs {
		if !g.rights.may(ctx, "get", ref.Kind, ref.Namespace, ref.Name) {
			refused = hinted{fmt.Errorf("you may not see %s", nameOf(ref)), "it takes the right to get " + clean(kindNames([]inspect.Kind{ref.Kind}))}
			continue
		}
		cares, err := g.source.About(ctx, ref)
		if err != nil {
			return nil, 0, err
		}
		cares = slices.DeleteFunc(cares, func(c inspect.Care) bool { return c.Controller != g.of.Name })
		all = append(all, g.rights.cares(ctx, cares)...)
	}
	if err := g.rights.sure(); err != nil {
		return nil, 0, err
	}
	switch {
	case len(all) > 0:
		return all, len(all), nil
	case refused != nil:
		return nil, 0, refused
	}
	return nil, 0, hinted{fmt.Errorf("%s does not care for %q in namespace %s", g.of.Name, g.name, g.found.Namespace), "-n names another namespace; `setpoint get " + clean(g.of.Name) + " -A` shows all"}
}

// objectName is the name without the kind that may be said before a slash.
func (g *getting) objectName() string { return g.name[strings.Index(g.name, "/")+1:] }

// refs are what may be meant by the name.
func (g *getting) refs(ctx context.Context) ([]inspect.Ref, error) {
	name := g.objectName()
	var only inspect.Kind
	if word, _, split := strings.Cut(g.name, "/"); split {
		var err error
		if only, err = (&reader{g.rights.api}).kind(ctx, word); err != nil {
			return nil, err
		}
	}
	var all []inspect.Ref
	for _, k := range g.of.Kinds {
		if only.Kind != "" && (only.Group != k.Group || only.Kind != k.Kind) {
			continue
		}
		ref := inspect.Ref{Kind: k, Name: name}
		if k.Namespaced {
			ref.Namespace = g.found.Namespace
		}
		all = append(all, ref)
	}
	return all, nil
}

func (g *getting) head() []string {
	var head []string
	if g.everywhere {
		head = append(head, "NAMESPACE")
	}
	head = append(head, "NAME", "STATE", "CHILDREN", "NEXT RUN", "AGE", "ERROR")
	if g.reading.output.value == wide {
		head = slices.Insert(head, len(head)-1, "RAN", "ATTEMPTS", "DELETING", "UID")
	}
	return head
}

func (g *getting) row(c readable, now time.Time) row {
	name := c.Name
	if len(g.of.Kinds) > 1 {
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
	cells = append(cells, name, state, strconv.Itoa(c.Children), in(c.Next, now), ago(c.Created, now), short(troubleOf(c.Care), maxTrouble))
	if g.reading.output.value == wide {
		cells[len(cells)-1] = troubleOf(c.Care)
		cells = slices.Insert(cells, len(cells)-1, ago(c.Ran, now), strconv.Itoa(c.Attempts), strconv.FormatBool(c.Deleting), c.UID)
	}
	return row{
		cells: cells, value: c, name: nameArg(c.Ref),
		key:  cmp.Or(c.UID, c.Kind.Kind+"/"+c.Namespace+"/"+c.Name),
		same: fmt.Sprint(state, c.Error, c.Unrest, c.Children, c.Deleting, c.Name),
	}
}
