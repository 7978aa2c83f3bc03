package ui

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// kindPage is what the page of one kind shows.
type kindPage struct {
	inspect.Kind
	Resource string
	// Namespace, Name and Labels are what the list is narrowed to.
	Namespace, Name, Labels string
	Namespaces              []string
	// NoNamespace says that there is none of that name.
	NoNamespace bool
	Columns     []asuser.Column
	Rows        []objectRow
	// By are the controllers that care for it.
	By []inspect.Controller
	// New is where one is created. Missing is the right that the visitor lacks for
	// that, and MayDelete says that there is a right to delete some.
	New       string
	Missing   string
	MayDelete bool
	// MayEdit says that there is a right to change some.
	MayEdit bool
	// Next and First are pages of the list; Note says what happened to it.
	Next, First, Note string
	Left              int64
	// Problem is why there is no list.
	Problem *problem
}

// objectRow is one object.
type objectRow struct {
	asuser.Row
	Ref inspect.Ref
	// Cells are those of the columns that are shown.
	Cells []string
	Cares []inspect.Care
}

// Narrowed says that the list is not of all there are.
func (p *kindPage) Narrowed() bool { return p.Name != "" || p.Labels != "" }

// Kinds is the kind as a heading, such as "NetworkPolicies".
func (p *kindPage) Kinds() string {
	name, plural := p.Kind.Kind, p.Plural
	same := 0
	for same < min(len(name), len(plural)) && strings.EqualFold(name[same:same+1], plural[same:same+1]) {
		same++
	}
	return name[:same] + plural[same:]
}

// Unlisted is the namespace that was asked for, where the list has no such; "" otherwise.
func (p *kindPage) Unlisted() string {
	if slices.Contains(p.Namespaces, p.Namespace) {
		return ""
	}
	return p.Namespace
}

func showKind(v *visit) error {
	kind, err := v.api.Kind(v.context(), v.path("resource"))
	if err != nil {
		return err
	}
	data := &kindPage{
		Kind: kind, Resource: kind.Resource(),
		Namespace: v.query("namespace"), Name: strings.ToLower(v.query("name")), Labels: v.query("labels"),
	}
	switch {
	case !kind.Namespaced:
		data.Namespace = ""
	case v.within("objects"): // The others are not shown again.
	default:
		// Who may not list namespaces types the name of one.
		data.Namespaces, _ = v.api.Namespaces(v.context())
	}
	told := v.seen(v.ask())
	data.By = caring(told, kind)
	v.offer(data)
	if err := v.list(data, told); err != nil {
		if unreachable(err) && v.r.Header.Get("Hx-Request") != "" {
			return err // The page that has the list already keeps it.
		}
		data.Problem = problemOf(err)
	}
	v.addCares(data, told)
	data.NoNamespace = data.Problem == nil && len(data.Rows) == 0 && v.lacksNamespace(data.Namespace)
	shown := page{
		Name: "resource_kind", Title: data.Kinds(), Section: "resources",
		Watch: data.Resource, Namespace: data.Namespace, Data: data,
	}
	if data.Problem != nil && v.r.Header.Get("Hx-Request") == "" {
		shown.Status = data.Problem.Status
	}
	return v.render(shown)
}

// lacksNamespace says that a namespace does not exist, to a visitor who may know that.
func (v *visit) lacksNamespace(name string) bool {
	namespaces := inspect.Kind{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	if name == "" || !v.may("get", namespaces, "", name) {
		return false
	}
	_, err := v.api.Get(v.context(), namespaces, "", name)
	return apierrors.IsNotFound(err)
}

// offer finds out what the visitor may do here.
func (v *visit) offer(data *kindPage) {
	data.MayEdit = v.may("patch", data.Kind, data.Namespace, "")
	data.MayDelete = v.may("delete", data.Kind, data.Namespace, "")
	if !v.may("create", data.Kind, data.Namespace, "") {
		data.Missing = right("create", data.Kind, data.Namespace)
		return
	}
	data.New = resourceURL(data.Kind) + "/new"
	if data.Namespace != "" {
		data.New += "?" + url.Values{"namespace": {data.Namespace}}.Encode()
	}
}

// right names one for who could grant it.
func right(verb string, kind inspect.Kind, namespace string) string {
	text := verb + " " + kind.Resource()
	if namespace != "" {
		text += " in " + namespace
	}
	return text
}

// pageRows is how many rows a page has.
const pageRows = 100

// list asks for the rows of the page.
func (v *visit) list(data *kindPage, all []told) error {
	query := asuser.TableQuery{
		Namespace: data.Namespace, Labels: data.Labels, Limit: pageRows, Continue: v.query("continue"),
	}
	if data.Name != "" {
		return v.search(data, query, all)
	}
	table, err := v.api.Table(v.context(), data.Kind, query)
	if query.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		data.Note = "The list has changed too much to go on where you were. This is its beginning."
		query.Continue = ""
		table, err = v.api.Table(v.context(), data.Kind, query)
	}
	if err != nil {
		return err
	}
	data.add(table.Columns, table.Rows)
	data.Left = table.Remaining
	if table.Continue != "" {
		data.Next = v.pageAt(table.Continue)
	}
	if query.Continue != "" {
		data.First = v.pageAt("")
	}
	return nil
}

// add adds rows. Columns of a priority are for wide screens elsewhere; here they are
// left out.
func (p *kindPage) add(columns []asuser.Column, rows []asuser.Row) {
	var shown []int
	p.Columns = nil
	for i, column := range columns {
		if column.Priority == 0 && !strings.EqualFold(column.Name, "name") {
			if len(column.Description) > 160 {
				// What is as long as that is no title.
				column.Description = ""
			}
			shown, p.Columns = append(shown, i), append(p.Columns, column)
		}
	}
	for _, row := range rows {
		each := objectRow{Row: row, Ref: inspect.Ref{Kind: p.Kind, Namespace: row.Namespace, Name: row.Name, UID: row.UID}}
		for _, i := range shown {
			each.Cells = append(each.Cells, row.Cells[i])
		}
		p.Rows = append(p.Rows, each)
	}
}

// pageAt is this page at another place of the list.
func (v *visit) pageAt(next string) string {
	query := maps.Clone(v.r.URL.Query())
	query.Del("continue")
	if next != "" {
		query.Set("continue", next)
	}
	at := url.URL{Path: v.r.URL.Path, RawPath: v.r.URL.RawPath, RawQuery: query.Encode()}
	return at.RequestURI()
}

// caring are the controllers that care for a kind.
func caring(all []told, kind inspect.Kind) []inspect.Controller {
	var found []inspect.Controller
	for _, t := range all {
		for _, c := range t.Controllers {
			if slices.ContainsFunc(c.Kinds, func(k inspect.Kind) bool { return sameKind(k, kind) }) {
				found = append(found, c)
			}
		}
	}
	return found
}

// manyCares is how many objects of a controller are asked for at once to find those of
// a page among them; where it has more, it is asked for each.
const manyCares = 1000

// addCares adds to each row how its object is doing.
func (v *visit) addCares(data *kindPage, all []told) {
	ctx, cancel := context.WithTimeout(v.context(), sourceTime)
	defer cancel()
	for _, t := range all {
		for _, c := range caring([]told{t}, data.Kind) {
			cares, err := data.cares(ctx, t.Source, c.Name)
			if err != nil {
				v.log.Debug("states are not known", "controller", c.Name, "error", err.Error())
				continue
			}
			data.join(v.discreetly(cares))
		}
	}
}

// query asks for the objects of the kind, where the page looks for them.
func (p *kindPage) query(limit int) inspect.Query {
	return inspect.Query{Group: p.Group, Kind: p.Kind.Kind, Namespace: p.Namespace, Sort: "name", Limit: limit}
}

// cares are the states of objects of a controller, those of the page among them. How
// many there are is asked first.
func (p *kindPage) cares(ctx context.Context, source inspect.Source, controller string) ([]inspect.Care, error) {
	if len(p.Rows) == 0 {
		return nil, nil
	}
	first, err := source.Objects(ctx, controller, p.query(1))
	if err != nil || first.Matching <= len(first.Objects) {
		return first.Objects, err
	}
	if first.Matching > manyCares {
		return askEach(ctx, source, controller, p.Rows), nil
	}
	all, err := source.Objects(ctx, controller, p.query(manyCares))
	return all.Objects, err
}

// discreetly are states without what the visitor may not read.
func (v *visit) discreetly(cares []inspect.Care) []inspect.Care {
	for i := range cares {
		cares[i] = inspect.RedactCare(cares[i], v.reads)
	}
	return cares
}

func askEach(ctx context.Context, source inspect.Source, controller string, rows []objectRow) []inspect.Care {
	var found []inspect.Care
	for i := range rows {
		cares, err := source.About(ctx, rows[i].Ref)
		if err != nil {
			return found
		}
		for _, care := range cares {
			if care.Controller == controller {
				found = append(found, care)
			}
		}
	}
	return found
}

func (p *kindPage) join(cares []inspect.Care) {
	type key struct{ namespace, name string }
	by := map[key]inspect.Care{}
	for _, care := range cares {
		if !sameKind(care.Kind, p.Kind) {
			continue
		}
		by[key{care.Namespace, care.Name}] = care
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		if care, ok := by[key{row.Namespace, row.Name}]; ok {
			row.Cares = append(row.Cares, care)
		}
	}
}

// addressed is the object that a URL is about.
func (v *visit) addressed() (inspect.Ref, error) {
	kind, err := v.api.Kind(v.context(), v.path("resource"))
	if err != nil {
		return inspect.Ref{}, err
	}
	ref := inspect.Ref{Kind: kind, Namespace: v.path("namespace"), Name: v.path("name")}
	if ref.Namespace == noNamespace {
		ref.Namespace = ""
	}
	if kind.Namespaced != (ref.Namespace != "") {
		return ref, &problem{Status: http.StatusNotFound, Title: "Not here", Text: "There is no such object: " + kind.Kind + " " + ref.Name + "."}
	}
	return ref, nil
}
