package dashboard

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// kindPage is what the page of one kind shows.
type kindPage struct {
	model.Kind
	Resource string
	// Namespace, Name and Labels are what the list is narrowed to.
	Namespace, Name, Labels string
	Namespaces              []string
	// NamespaceNotFound says that there is none of that name.
	NamespaceNotFound bool
	Columns           []userclient.Column
	Rows              []objectRow
	// Controllers are the controllers that care for it.
	Controllers []model.Controller
	// NewURL is where one is created. Missing is the right that the visitor lacks for
	// that, and CanDelete says that there is a right to delete some.
	NewURL            string
	MissingPermission string
	CanDelete         bool
	// CanEdit says that there is a right to change some.
	CanEdit bool
	// NextURL and First are pages of the list; Note says what happened to it.
	NextURL, FirstURL, Note string
	Remaining               int64
	// Problem is why there is no list.
	Problem *problem
}

// objectRow is one object.
type objectRow struct {
	userclient.Row
	Ref model.Ref
	// Cells are those of the columns that are shown.
	Cells  []string
	States []model.ObjectState
}

// Filtered says that the list is not of all there are.
func (p *kindPage) Filtered() bool { return p.Name != "" || p.Labels != "" }

// Heading is the kind as a heading, such as "NetworkPolicies".
func (p *kindPage) Heading() string {
	name, plural := p.Kind.Kind, p.Plural
	same := 0
	for same < min(len(name), len(plural)) && strings.EqualFold(name[same:same+1], plural[same:same+1]) {
		same++
	}
	return name[:same] + plural[same:]
}

// UnlistedNamespace is the namespace that was asked for, where the list has no such; "" otherwise.
func (p *kindPage) UnlistedNamespace() string {
	if slices.Contains(p.Namespaces, p.Namespace) {
		return ""
	}
	return p.Namespace
}

// Range says which part of the list the page shows, such as "100 of 5,001".
func (p *kindPage) Range() string {
	shown := pluralize(len(p.Rows), "object", "objects")
	switch {
	case p.Remaining == 0:
		return shown
	case p.FirstURL == "":
		return formatCount(len(p.Rows)) + " of " + formatCount(int64(len(p.Rows))+p.Remaining)
	}
	return shown + ", " + formatCount(p.Remaining) + " more"
}

func showKind(req *request) error {
	kind, err := req.api.Kind(req.context(), req.path("resource"))
	if err != nil {
		return err
	}
	data := &kindPage{
		Kind: kind, Resource: kind.Resource(),
		Namespace: req.query("namespace"), Name: strings.ToLower(req.query("name")), Labels: req.query("labels"),
	}
	switch {
	case !kind.Namespaced:
		data.Namespace = ""
	case req.targets("objects"): // The others are not shown again.
	default:
		// Who may not list namespaces types the name of one.
		data.Namespaces, _ = req.api.Namespaces(req.context())
	}
	processes := req.visibleProcesses(req.fetchProcesses())
	data.Controllers = managingControllers(processes, kind)
	req.setActions(data)
	if err := req.listRows(data, processes); err != nil {
		if isUnreachable(err) && req.r.Header.Get("Hx-Request") != "" {
			return err // The page that has the list already keeps it.
		}
		data.Problem = problemOf(err)
	}
	req.addStates(data, processes)
	data.NamespaceNotFound = data.Problem == nil && len(data.Rows) == 0 && req.namespaceMissing(data.Namespace)
	shown := page{
		Name: "resource_kind", Title: data.Heading(), Section: "resources",
		Watch: data.Resource, Namespace: data.Namespace, Data: data,
	}
	if data.Problem != nil && req.r.Header.Get("Hx-Request") == "" {
		shown.Status = data.Problem.Status
	}
	return req.render(shown)
}

// namespaceMissing says that a namespace does not exist, to a visitor who may know that.
func (req *request) namespaceMissing(name string) bool {
	namespaces := model.Kind{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	if name == "" || !req.can("get", namespaces, "", name) {
		return false
	}
	_, err := req.api.Get(req.context(), namespaces, "", name)
	return apierrors.IsNotFound(err)
}

// setActions finds out what the visitor may do here.
func (req *request) setActions(data *kindPage) {
	data.CanEdit = req.can("patch", data.Kind, data.Namespace, "")
	data.CanDelete = req.can("delete", data.Kind, data.Namespace, "")
	if !req.can("create", data.Kind, data.Namespace, "") {
		data.MissingPermission = shortPermission("create", data.Kind, data.Namespace)
		return
	}
	data.NewURL = resourceURL(data.Kind) + "/new"
	if data.Namespace != "" {
		data.NewURL += "?" + url.Values{"namespace": {data.Namespace}}.Encode()
	}
}

// shortPermission names one for who could grant it.
func shortPermission(verb string, kind model.Kind, namespace string) string {
	text := verb + " " + kind.Resource()
	if namespace != "" {
		text += " in " + namespace
	}
	return text
}

// pageRows is how many rows a page has.
const pageRows = 100

// listRows asks for the rows of the page.
func (req *request) listRows(data *kindPage, all []processInfo) error {
	query := userclient.TableQuery{
		Namespace: data.Namespace, Labels: data.Labels, Limit: pageRows, Continue: req.query("continue"),
	}
	if data.Name != "" {
		return req.search(data, query, all)
	}
	table, err := req.api.Table(req.context(), data.Kind, query)
	if query.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		data.Note = "The list changed too much to continue. This is its first page."
		query.Continue = ""
		table, err = req.api.Table(req.context(), data.Kind, query)
	}
	if err != nil {
		return err
	}
	data.addRows(table.Columns, table.Rows)
	data.Remaining = table.Remaining
	if table.Continue != "" {
		data.NextURL = req.pageURL(table.Continue)
	}
	if query.Continue != "" {
		data.FirstURL = req.pageURL("")
	}
	return nil
}

// addRows adds rows. Columns of a priority are for wide screens elsewhere; here they are
// left out.
func (p *kindPage) addRows(columns []userclient.Column, rows []userclient.Row) {
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
		each := objectRow{Row: row, Ref: model.Ref{Kind: p.Kind, Namespace: row.Namespace, Name: row.Name, UID: row.UID}}
		for _, i := range shown {
			each.Cells = append(each.Cells, row.Cells[i])
		}
		p.Rows = append(p.Rows, each)
	}
}

// pageURL is this page at another place of the list.
func (req *request) pageURL(next string) string {
	query := maps.Clone(req.r.URL.Query())
	query.Del("continue")
	if next != "" {
		query.Set("continue", next)
	}
	at := url.URL{Path: req.r.URL.Path, RawPath: req.r.URL.RawPath, RawQuery: query.Encode()}
	return at.RequestURI()
}

// managingControllers are the controllers that care for a kind.
func managingControllers(all []processInfo, kind model.Kind) []model.Controller {
	var found []model.Controller
	for _, t := range all {
		for _, c := range t.Controllers {
			if slices.ContainsFunc(c.Kinds, func(k model.Kind) bool { return sameKind(k, kind) }) {
				found = append(found, c)
			}
		}
	}
	return found
}

// maxStates is how many objects of a controller are asked for at once to find those of
// a page among them; where it has more, it is asked for each.
const maxStates = 1000

// addStates adds to each row how its object is doing.
func (req *request) addStates(data *kindPage, all []processInfo) {
	ctx, cancel := context.WithTimeout(req.context(), sourceTimeout)
	defer cancel()
	for _, t := range all {
		for _, c := range managingControllers([]processInfo{t}, data.Kind) {
			states, err := data.fetchStates(ctx, t.Source, c.Name)
			if err != nil {
				req.log.Debug("states are not known", "controller", c.Name, "error", err.Error())
				continue
			}
			data.joinStates(req.redactStates(states))
		}
	}
}

// query asks for the objects of the kind, where the page looks for them.
func (p *kindPage) query(limit int) model.Query {
	return model.Query{Group: p.Group, Kind: p.Kind.Kind, Namespace: p.Namespace, Sort: "name", Limit: limit}
}

// fetchStates are the states of objects of a controller, those of the page among them. How
// many there are is asked first.
func (p *kindPage) fetchStates(ctx context.Context, source model.Source, controller string) ([]model.ObjectState, error) {
	if len(p.Rows) == 0 {
		return nil, nil
	}
	first, err := source.Objects(ctx, controller, p.query(1))
	if err != nil || first.Matching <= len(first.Objects) {
		return first.Objects, err
	}
	if first.Matching > maxStates {
		return fetchEach(ctx, source, controller, p.Rows), nil
	}
	all, err := source.Objects(ctx, controller, p.query(maxStates))
	return all.Objects, err
}

// redactStates are states without what the visitor may not read.
func (req *request) redactStates(states []model.ObjectState) []model.ObjectState {
	for i := range states {
		states[i] = model.RedactState(states[i], req.canRead)
	}
	return states
}

func fetchEach(ctx context.Context, source model.Source, controller string, rows []objectRow) []model.ObjectState {
	var found []model.ObjectState
	for i := range rows {
		states, err := source.States(ctx, rows[i].Ref)
		if err != nil {
			return found
		}
		for _, state := range states {
			if state.Controller == controller {
				found = append(found, state)
			}
		}
	}
	return found
}

func (p *kindPage) joinStates(states []model.ObjectState) {
	type key struct{ namespace, name string }
	by := map[key]model.ObjectState{}
	for _, state := range states {
		if !sameKind(state.Kind, p.Kind) {
			continue
		}
		by[key{state.Namespace, state.Name}] = state
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		if state, ok := by[key{row.Namespace, row.Name}]; ok {
			row.States = append(row.States, state)
		}
	}
}

// refFromURL is the object that a URL is about.
func (req *request) refFromURL() (model.Ref, error) {
	kind, err := req.api.Kind(req.context(), req.path("resource"))
	if err != nil {
		return model.Ref{}, err
	}
	ref := model.Ref{Kind: kind, Namespace: req.path("namespace"), Name: req.path("name")}
	if ref.Namespace == noNamespace {
		ref.Namespace = ""
	}
	if kind.Namespaced != (ref.Namespace != "") {
		return ref, &problem{Status: http.StatusNotFound, Title: "Not found", Text: "Not found: " + kind.Kind + " " + ref.Name + "."}
	}
	return ref, nil
}
