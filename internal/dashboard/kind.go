package dashboard

import (
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Filtered reports whether a filter is set.
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

// UnlistedNamespace returns the selected namespace if it is not in the list.
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

// setActions sets what the user may do.
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

// listRows lists the objects of the page.
func (req *request) listRows(data *kindPage, all []processes.Info) error {
	query := userclient.TableQuery{
		Namespace: data.Namespace, Labels: data.Labels, Limit: pageRows, Continue: req.Query("continue"),
	}
	if data.isWhole() {
		return req.listWhole(data, query, all)
	}
	defer req.addStates(data, all)
	table, err := req.API.Table(req.Context(), data.Kind, query)
	if query.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		data.Note = "The list changed too much to continue. This is its first page."
		query.Continue = ""
		table, err = req.API.Table(req.Context(), data.Kind, query)
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
