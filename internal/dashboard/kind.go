package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

type kindPage struct {
	object.Kind
	// Namespace, Name and Labels are the filters.
	Namespace, Name, Labels string
	Namespaces              []string
	NamespaceNotFound       bool
	Columns                 []userclient.Column
	// ListView has the filters by state and the order. The API server knows neither, so a list
	// with one of them is read whole and is in memory.
	web.ListView
	Rows []objectRow
	// Controllers are the controllers that manage the kind.
	Controllers []inspect.Controller
	// NewURL is where to create an object; MissingPermission is what that needs. CanDelete
	// reports whether the user may delete some.
	NewURL            string
	MissingPermission string
	CanDelete         bool
	// CanEdit reports whether the user may patch some.
	CanEdit bool
	// NextURL and FirstURL are other pages of the list. Note is a remark about the list.
	NextURL, PreviousURL, FirstURL, Note string
	Remaining                            int64
	// Problem is why the list failed.
	Problem *web.Problem
}

type objectRow struct {
	userclient.Row
	Ref object.Ref
	// Cells are the cells of the visible columns.
	Cells  []string
	States []inspect.ObjectState
}

func (p *kindPage) Filtered() bool { return p.Name != "" || p.Labels != "" || p.State != "" }

// Heading returns the plural of the kind, such as "NetworkPolicies".
func (p *kindPage) Heading() string {
	name, plural := p.Kind.Kind, p.Plural
	same := 0
	for same < min(len(name), len(plural)) && strings.EqualFold(name[same:same+1], plural[same:same+1]) {
		same++
	}
	return name[:same] + plural[same:]
}

func (p *kindPage) UnlistedNamespace() string {
	if slices.Contains(p.Namespaces, p.Namespace) {
		return ""
	}
	return p.Namespace
}

func showKind(req *request) error {
	kind, err := req.PathKind()
	if err != nil {
		return err
	}
	order := "name" // That of the API server.
	if kind.Namespaced && req.Query("namespace") == "" {
		order = "namespace"
	}
	data := &kindPage{
		Kind: kind, Namespace: req.Query("namespace"), Name: strings.ToLower(req.Query("name")), Labels: req.Query("labels"),
		ListView: req.NewListView(objectRowSpec(order).View()),
	}
	switch {
	case !kind.Namespaced:
		data.Namespace = ""
	case req.Targets("objects"): // Only the list is replaced.
	default:
		// Users who may not list namespaces type a name.
		data.Namespaces, _ = req.API.Namespaces(req.Context())
	}
	known := processes.Visible(req.Processes.Fetch(req.Context()), req.Can)
	data.Controllers = processes.Managing(known, kind)
	req.setActions(data)
	if err := req.listRows(data, known); err != nil {
		if userclient.IsUnreachable(err) && req.IsHTMX() {
			return err // htmx keeps the current list.
		}
		data.Problem = web.ProblemOf(err)
	}
	data.NamespaceNotFound = data.Problem == nil && len(data.Rows) == 0 && req.namespaceMissing(data.Namespace)
	shown := web.Page{
		Name: "resource_kind", Title: data.Heading(), Section: "resources",
		Watch: kind.Resource(), Namespace: data.Namespace, Data: data,
	}
	if data.Problem != nil && !req.IsHTMX() {
		shown.Status = data.Problem.Status
	}
	return req.Render(shown)
}

// namespaceMissing reports whether a namespace does not exist and the user may know that.
func (req *request) namespaceMissing(name string) bool {
	namespaces := object.KindOf(object.Namespaces)
	if name == "" || !req.Can("get", namespaces, "", name) {
		return false
	}
	_, err := req.API.Get(req.Context(), namespaces, "", name)
	return apierrors.IsNotFound(err)
}

func (req *request) setActions(data *kindPage) {
	data.CanEdit = req.Can("patch", data.Kind, data.Namespace, "")
	data.CanDelete = req.Can("delete", data.Kind, data.Namespace, "")
	if data.MissingPermission = req.Refusal("create", object.Ref{Kind: data.Kind,
		Namespace: data.Namespace}); data.MissingPermission != "" {
		return
	}
	data.NewURL = web.ResourceURL(data.Kind) + "/new"
	if data.Namespace != "" {
		data.NewURL += "?" + url.Values{"namespace": {data.Namespace}}.Encode()
	}
}

func (req *request) listRows(data *kindPage, all []processes.Info) error {
	query := metav1.ListOptions{LabelSelector: data.Labels, Limit: pageRows, Continue: req.Query("continue")}
	if data.isWhole() {
		return req.listWhole(data, query, all)
	}
	defer req.addStates(data, all)
	table, err := req.API.Table(req.Context(), data.Kind, data.Namespace, query)
	if query.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		data.Note = "The list changed too much to continue. This is its first page."
		query.Continue = ""
		table, err = req.API.Table(req.Context(), data.Kind, data.Namespace, query)
	}
	if err != nil {
		return err
	}
	data.addRows(table.Columns, table.Rows)
	data.Remaining = table.Remaining
	if table.Continue != "" {
		data.NextURL = web.URLWith(req.R.URL, "continue", table.Continue)
	}
	if query.Continue != "" {
		data.FirstURL = web.URLWith(req.R.URL, "continue", "")
	}
	return nil
}

// Range says which part of the list the page shows, such as "100 of 5,001".
func (p *kindPage) Range() string {
	shown := format.Plural(len(p.Rows), "object", "objects")
	switch {
	case p.isWhole():
		return p.ListView.Range()
	case p.Remaining == 0:
		return shown
	case p.FirstURL == "":
		return format.Count(len(p.Rows)) + " of " + format.Count(int64(len(p.Rows))+p.Remaining)
	}
	return shown + ", " + format.Count(p.Remaining) + " more"
}

// objectRowSpec is the list of the objects of a kind.
func objectRowSpec(defaultSort string) *web.ListSpec[objectRow] {
	name := func(r *objectRow) string { return r.Name }
	return &web.ListSpec[objectRow]{
		Target: "objects", One: "object", More: "objects", Label: "States", States: processes.ObjectStates(), Default: defaultSort,
		State: (*objectRow).worst,
		Columns: []web.ListColumn[objectRow]{
			{Name: "Name", Sort: "name", Compare: web.CompareText(name)},
			{Name: "Namespace", Sort: "namespace", Compare: func(a, b *objectRow) int {
				return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
			}},
			{Name: "State", Sort: "state", Compare: func(a, b *objectRow) int {
				return cmp.Compare(stateRank(a.worst()), stateRank(b.worst()))
			}},
			{Name: "Age", Sort: "created", Compare: web.CompareLatest(func(r *objectRow) time.Time { return r.Created })},
		},
	}
}

// stateRank orders states by severity. Objects without a controller are last.
func stateRank(state string) int {
	if at := slices.Index(processes.ObjectStates(), state); at >= 0 {
		return at
	}
	return len(processes.ObjectStates())
}

// isWhole reports whether the order or a filter is not one of the API server, so that the list is
// read whole and is in memory.
func (p *kindPage) isWhole() bool {
	return p.Name != "" || p.State != "" || p.Reverse || p.Sort != "" && p.Sort != p.Default
}

// Header returns the column headers: those that sort, and those of kubectl.
func (p *kindPage) Header() []web.Column {
	var header []web.Column
	age := web.Column{}
	for _, c := range p.ListView.Columns() {
		switch {
		case c.Sort == "created":
			age = c
		case c.Sort == "namespace" && (!p.Namespaced || p.Namespace != ""), c.Sort == "state" && len(p.Controllers) == 0:
		default:
			header = append(header, c)
		}
	}
	for _, printed := range p.Columns {
		c := web.Column{Name: printed.Name, Title: printed.Description}
		if printed.Name == age.Name {
			c.URL, c.Sorted, c.Sort = age.URL, age.Sorted, age.Sort
		}
		header = append(header, c)
	}
	return header
}

// Filters returns the filters by state. Their numbers are known only of a list that is in memory.
func (p *kindPage) Filters() []web.StateFilter {
	if p.isWhole() {
		return p.ListView.Filters()
	}
	for _, state := range inspect.States() {
		p.Counts[string(state)] = 1
	}
	all := p.ListView.Filters()
	for i := range all {
		all[i].Count = -1
	}
	return all
}

// Limits of a list that is read whole: how many objects are read, in pages of which size.
const (
	maxWholeRows  = 20_000
	wholePageSize = 500
)

func (req *request) listWhole(data *kindPage, query metav1.ListOptions, all []processes.Info) error {
	query.Limit, query.Continue = wholePageSize, ""
	for seen := 0; ; {
		table, err := req.API.Table(req.Context(), data.Kind, data.Namespace, query)
		if err != nil {
			return err
		}
		seen += len(table.Rows)
		table.Rows = slices.DeleteFunc(table.Rows, func(r userclient.Row) bool { return !strings.Contains(r.Name, data.Name) })
		data.addRows(table.Columns, table.Rows)
		if query.Continue = table.Continue; query.Continue == "" {
			break
		}
		if seen >= maxWholeRows {
			data.Note = "Only the first " + format.Count(seen) +
				" objects are sorted and filtered. Filter by namespace or labels to sort all."
			break
		}
	}
	req.addStates(data, all)
	whole := web.NewList(req.Request, data.Rows, objectRowSpec(data.Default))
	data.ListView, data.Rows = whole.ListView, whole.Rows
	data.PreviousURL, data.NextURL = data.ListView.PreviousURL(), data.ListView.NextURL()
	return nil
}

// worst returns the most severe state; "" if no controller manages the object.
func (r *objectRow) worst() string {
	if len(r.States) == 0 {
		return ""
	}
	return slices.MinFunc(lists.Map(r.States, func(s inspect.ObjectState) string { return string(s.State) }), func(a, b string) int {
		return cmp.Compare(stateRank(a), stateRank(b))
	})
}

// addRows adds rows. Wide columns, of a priority above 0, are left out.
func (p *kindPage) addRows(columns []userclient.Column, rows []userclient.Row) {
	var shown []int
	p.Columns = nil
	for i, column := range columns {
		if column.Priority == 0 && !strings.EqualFold(column.Name, "name") {
			if len(column.Description) > 160 {
				// This is too long for a tooltip.
				column.Description = ""
			}
			shown, p.Columns = append(shown, i), append(p.Columns, column)
		}
	}
	for _, row := range rows {
		p.Rows = append(p.Rows, objectRow{
			Row: row, Ref: object.Ref{Kind: p.Kind, Namespace: row.Namespace, Name: row.Name, UID: row.UID},
			Cells: lists.Map(shown, func(i int) string { return row.Cells[i] }),
		})
	}
}

// maxStates is how many states to fetch at once; beyond that, each object is fetched.
const maxStates = 1000

type kindStates struct {
	controller inspect.Controller
	// unwatched is the state of all its objects if it watches none.
	unwatched inspect.State
	states    []inspect.ObjectState
	// truncated reports that it has more than were fetched.
	truncated bool
}

// addStates adds the states of the objects, and notes which are missing. It queries all processes
// at once, each with its own timeout.
func (req *request) addStates(data *kindPage, all []processes.Info) {
	found, failed := make([][]kindStates, len(all)), make([]error, len(all))
	userclient.InParallel(len(all), func(i int) { found[i], failed[i] = req.fetchKind(data, &all[i]) })
	for i := range all {
		for k := range found[i] {
			each := &found[i][k]
			if each.unwatched != "" {
				data.addUnwatched(&each.controller, each.unwatched)
				continue
			}
			if all[i].Process.IsStandby() && !each.controller.AllReplicas {
				processes.ShowStandby(each.states)
			}
			if each.truncated {
				data.addNote("Only the first " + format.Count(maxWholeRows) + " states of " + each.controller.Name + " are shown.")
			}
			data.joinStates(req.redactStates(each.states))
		}
		if failed[i] == nil || req.Context().Err() != nil {
			continue
		}
		why := ": " + failed[i].Error()
		if errors.Is(failed[i], context.DeadlineExceeded) {
			why = " in time"
		}
		data.addNote("States are missing: process " + all[i].Source.Name() + " did not respond" + why + ".")
	}
}

func (p *kindPage) addNote(text string) { p.Note = strings.TrimSpace(p.Note + " " + text) }

// fetchKind returns the states of the objects of the page from a process. After an error they are incomplete.
func (req *request) fetchKind(data *kindPage, t *processes.Info) ([]kindStates, error) {
	var all []kindStates
	queried := false
	for _, c := range processes.Managing([]processes.Info{*t}, data.Kind) {
		all = append(all, kindStates{controller: c, unwatched: processes.Unwatched(t, &c)})
		queried = queried || all[len(all)-1].unwatched == ""
	}
	if !queried || len(data.Rows) == 0 {
		return all, nil
	}
	return inspect.QueryOne(req.Context(), req.Processes.Timeouts, t.Source,
		func(ctx context.Context, s inspect.Source) ([]kindStates, error) {
			var failed error
			for i := range all {
				if all[i].unwatched != "" {
					continue
				}
				err := data.fetchStates(ctx, s, &all[i])
				if failed == nil && !errors.Is(err, failure.ErrNotFound) { // Another process has the controller now.
					failed = err
				}
			}
			return all, failed
		})
}

func (p *kindPage) query(limit int) inspect.Query {
	return inspect.Query{Group: p.Group, Kind: p.Kind.Kind, Namespace: p.Namespace, Sort: "name", Limit: limit}
}

// fetchStates fetches the states of the objects of a controller. It counts them first.
func (p *kindPage) fetchStates(ctx context.Context, source inspect.Source, into *kindStates) error {
	controller := into.controller.Name
	first, err := source.Objects(ctx, controller, p.query(1))
	if err != nil || first.Matching <= len(first.Objects) {
		into.states = first.Objects
		return err
	}
	if first.Matching > maxStates && len(p.Rows) <= pageRows {
		into.states, err = fetchEach(ctx, source, controller, p.Rows)
		return err
	}
	all, err := source.Objects(ctx, controller, p.query(min(max(maxStates, first.Matching), maxWholeRows)))
	into.states, into.truncated = all.Objects, all.Matching > maxWholeRows
	return err
}

// fetchEach fetches the states of each object. After an error they are incomplete.
func fetchEach(ctx context.Context, source inspect.Source, controller string, rows []objectRow) (found []inspect.ObjectState, err error) {
	for i := range rows {
		states, err := source.States(ctx, rows[i].Ref)
		if err != nil && !errors.Is(err, failure.ErrNotFound) {
			return found, err
		}
		for _, state := range states {
			if state.Controller == controller {
				found = append(found, state)
			}
		}
	}
	return found, nil
}

// addUnwatched adds the state of all objects of a controller that watches none.
func (p *kindPage) addUnwatched(c *inspect.Controller, state inspect.State) {
	for i := range p.Rows {
		p.Rows[i].States = append(p.Rows[i].States, inspect.ObjectState{Ref: p.Rows[i].Ref, State: state, Controller: c.Name,
			Process: c.Process})
	}
}

func (req *request) redactStates(states []inspect.ObjectState) []inspect.ObjectState {
	for i := range states {
		states[i] = inspect.RedactState(states[i], req.CanRead)
	}
	return states
}

func (p *kindPage) joinStates(states []inspect.ObjectState) {
	type key struct{ namespace, name string }
	by := map[key]inspect.ObjectState{}
	for _, state := range states {
		if state.GroupKind() == p.GroupKind() {
			by[key{state.Namespace, state.Name}] = state
		}
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		if state, ok := by[key{row.Namespace, row.Name}]; ok {
			row.States = append(row.States, state)
		}
	}
}

const pageRows = 100
