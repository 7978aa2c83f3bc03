package dashboard

import (
	"cmp"
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
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	data := &kindPage{
		Kind: kind, Namespace: req.Query("namespace"), Name: strings.ToLower(req.Query("name")), Labels: req.Query("labels"),
		ListView: req.NewListView(kindListView(kind, req.Query("namespace"))),
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

// objectRowSpec is the list of the objects of a kind. Its default is the order of the API server.
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

// kindListView returns the list of a kind without its rows.
func kindListView(kind object.Kind, namespace string) web.ListView {
	if kind.Namespaced && namespace == "" {
		return objectRowSpec("namespace").View()
	}
	return objectRowSpec("name").View()
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
