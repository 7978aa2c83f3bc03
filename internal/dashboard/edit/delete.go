package edit

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

type deletePage struct {
	object.Ref
	// Finalizers delay the deletion. Deleting reports that it was requested before.
	Finalizers []string
	Deleting   bool
	// Dependents are deleted with it. States are the states of its controllers.
	Dependents []dependent
	States     []inspect.ObjectState
	// Troubled are its controllers that are not well, unless a state says so of the object itself.
	Troubled []processes.ControllerRow
	// Contents are the objects in a namespace or of a custom resource, which are always deleted
	// too. SearchedKinds are the kinds that were searched for dependents.
	Contents      []userclient.KindCount
	HasContents   bool
	SearchedKinds []string
	// Incomplete is why dependents may be missing.
	Incomplete string
	// ConfirmName asks the user to type the name, since much is deleted.
	ConfirmName       bool
	MissingPermission string
	// Propagation is the selected propagation policy.
	Propagation string
	Problem     string
	BackURL     string
}

// dependent is an object that is deleted too, and its depth below the object.
type dependent struct {
	object.Ref
	Depth int
}

// Indent precedes the kind of a dependent of a dependent.
func (d dependent) Indent() string {
	if d.Depth == 0 {
		return ""
	}
	return strings.Repeat("\u2003", d.Depth-1) + "↳ "
}

// confirmThreshold is the number of dependents above which the user must type the name.
const confirmThreshold = 10

func showDelete(req *request) error {
	ref, err := req.RefFromURL()
	if err != nil {
		return err
	}
	data, err := req.loadDelete(ref)
	if err != nil {
		return err
	}
	return req.renderDelete(data, 0)
}

func (req *request) renderDelete(data *deletePage, status int) error {
	return req.Render(web.Page{
		Name: "resource_delete", Title: "Delete " + data.Name, Section: "resources", Static: true, Status: status, Data: data,
	})
}

// loadDelete finds everything that is deleted with an object.
func (req *request) loadDelete(ref object.Ref) (*deletePage, error) {
	stored, err := req.API.Get(req.Context(), ref.Kind, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(stored, &o); err != nil {
		return nil, err
	}
	ref.UID = string(o.UID)
	data := &deletePage{
		Ref: ref, Finalizers: o.Finalizers, Deleting: o.DeletionTimestamp != nil,
		Propagation: string(metav1.DeletePropagationBackground), BackURL: web.ObjectURL(ref),
	}
	data.MissingPermission = req.Refusal("delete", ref)
	if err := cmp.Or(req.findDependents(data), req.addContents(data)); err != nil {
		return nil, err
	}
	data.ConfirmName = len(data.Dependents) > confirmThreshold || data.HasContents
	return data, nil
}

// addContents counts the objects in a namespace or of a CRD, which are deleted without owner references.
func (req *request) addContents(data *deletePage) (err error) {
	switch data.Kind.Kind + "." + data.Group {
	case "Namespace.":
		data.HasContents = true
		data.Contents, err = req.API.Contents(req.Context(), data.Name)
	case "CustomResourceDefinition.apiextensions.k8s.io":
		data.HasContents = true
		var kind object.Kind
		if kind, err = req.API.FindKind(req.Context(), data.Name); err == nil {
			data.Contents = []userclient.KindCount{req.API.Count(req.Context(), kind, "")}
		}
		if errors.Is(err, failure.ErrNotFound) {
			return nil // A kind that is not served has no objects.
		}
	}
	return err
}

// Counted returns the non-empty contents, largest first.
func (data *deletePage) Counted() []userclient.KindCount {
	counted := lists.Filter(data.Contents, func(t userclient.KindCount) bool { return t.Count > 0 })
	slices.SortStableFunc(counted, func(a, b userclient.KindCount) int { return cmp.Compare(b.Count, a.Count) })
	return counted
}

func (data *deletePage) Uncounted() []userclient.KindCount {
	return lists.Filter(data.Contents, func(t userclient.KindCount) bool { return t.Err != nil })
}

func (data *deletePage) ContentsURL(kind object.Kind) string {
	if data.Kind.Kind != "Namespace" {
		return web.ResourceURL(kind)
	}
	return web.ResourceURL(kind) + "?" + url.Values{"namespace": {data.Name}}.Encode()
}

// findDependents finds the children that controllers know and the objects with owner references.
func (req *request) findDependents(data *deletePage) error {
	// The API server also finds the children of unavailable processes.
	data.States, _ = req.pages.objects.Of(req.Request).ObjectStates(data.Ref)
	known := req.Processes.Fetch(req.Context())
	if !slices.ContainsFunc(data.States, func(s inspect.ObjectState) bool { return s.Error != "" }) {
		data.Troubled = processes.Troubled(processes.Visible(known, req.Can), data.Kind)
	}
	var kinds []object.Kind
	for _, c := range processes.Managing(known, data.Kind) {
		kinds = lists.Union(kinds, c.Children)
	}
	if len(data.States) > 0 {
		kinds = lists.Union(kinds, []object.Kind{object.KindOf(plan.ControllerRevisions)})
	}
	found, err := req.pages.objects.Of(req.Request).Tree(data.Ref, data.States, kinds)
	if err != nil {
		return err
	}
	data.Incomplete = strings.Join(found.Warnings, " ")
	if found.More > 0 {
		data.Incomplete += " There are more objects."
	}
	searched := slices.Concat(kinds, ownertree.BuiltinChildKinds(data.Kind))
	data.SearchedKinds = lists.Union(nil, lists.Map(searched, func(k object.Kind) string { return k.Plural }))
	data.addDependents(found.Node, 0)
	return nil
}

func (data *deletePage) addDependents(owner *ownertree.Node, depth int) {
	for _, child := range owner.Children {
		data.Dependents = append(data.Dependents, dependent{child.Ref, depth})
		data.addDependents(child, depth+1)
	}
}

// deleteObject deletes the object if it is still the one on the page.
func deleteObject(req *request) error {
	ref, err := req.RefFromURL()
	if err != nil {
		return err
	}
	data, err := req.loadDelete(ref)
	if errors.Is(err, failure.ErrNotFound) || apierrors.IsNotFound(err) {
		return req.alreadyDeleted(ref)
	}
	if err != nil {
		return err
	}
	data.Propagation = cmp.Or(req.Field("propagation"), data.Propagation)
	if data.ConfirmName && req.Field("confirm") != data.Name {
		data.Problem = "Type the name " + data.Name + " to delete it and everything that it owns."
		return req.renderDelete(data, http.StatusUnprocessableEntity)
	}
	err = req.API.Delete(req.Context(), data.Kind, data.Namespace, data.Name, userclient.DeleteOptions{
		UID: req.Field("uid"), Propagation: metav1.DeletionPropagation(data.Propagation),
	})
	switch {
	case apierrors.IsNotFound(err):
		return req.alreadyDeleted(ref)
	case apierrors.IsConflict(err):
		data.Problem = "This is a different " + data.Kind.Kind +
			" of the same name. The one you chose is already deleted. Check before you delete this one."
		return req.renderDelete(data, http.StatusConflict)
	case err != nil:
		p := web.ProblemOf(err)
		data.Problem = p.Text
		return req.renderDelete(data, p.Status)
	}
	text := data.Kind.Kind + " " + data.Name + " deleted."
	if len(data.Finalizers) > 0 || data.Propagation == string(metav1.DeletePropagationForeground) {
		text = data.Kind.Kind + " " + data.Name + " is being deleted. It is removed when its finalizers are done."
	}
	req.Flash(text)
	return req.Redirect(req.listURL(data.Ref))
}

func (req *request) alreadyDeleted(ref object.Ref) error {
	req.Flash(ref.Kind.Kind + " " + ref.Name + " was already deleted.")
	return req.Redirect(req.listURL(ref))
}

// listURL returns the list of an object's kind: in all namespaces if the user may list them.
func (req *request) listURL(ref object.Ref) string {
	if ref.Namespace == "" || req.Can("list", ref.Kind, "", "") {
		return web.ResourceURL(ref.Kind)
	}
	return web.ResourceURL(ref.Kind) + "?" + url.Values{"namespace": {ref.Namespace}}.Encode()
}
