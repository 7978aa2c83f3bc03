package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// deletion is what the page on which an object is deleted shows.
type deletion struct {
	inspect.Ref
	UID string
	// Finalizers hold it until somebody has done what they stand for; Since is when
	// it was deleted already, in words.
	Finalizers []string
	Deleting   bool
	// Family is what goes with it, Cares who cares for it.
	Family []goner
	Cares  []inspect.Care
	// Contents are what is inside of it, of a namespace or a definition of a kind, and
	// goes in any case. Looked are the kinds that were looked through for what else it
	// owns, in words.
	Contents []asuser.Tally
	Holds    bool
	Looked   []string
	// Unknown is why there may be more of it.
	Unknown string
	// Type has the name typed, since much goes with it.
	Type    bool
	Missing string
	// Propagation is what is chosen.
	Propagation string
	Problem     string
	Back        string
}

// goner is an object that goes with another, and how many owners are between them.
type goner struct {
	inspect.Ref
	Depth int
}

// revisionKind is in what controllers keep what an object was before.
var revisionKind = inspect.Kind{Group: "apps", Version: "v1", Plural: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true}

// manyGo is how many objects may go without the name being typed.
const manyGo = 10

// showDelete is the page that says what will go.
func showDelete(v *visit) error {
	data, err := v.deletion()
	if err != nil {
		return err
	}
	return v.renderDeletion(data, 0)
}

func (v *visit) renderDeletion(data *deletion, status int) error {
	return v.render(page{
		Name: "resource_delete", Title: "Delete " + data.Name, Section: "resources", Still: true, Status: status, Data: data,
	})
}

// deletion finds out what goes with an object.
func (v *visit) deletion() (*deletion, error) {
	ref, err := v.addressed()
	if err != nil {
		return nil, err
	}
	stored, err := v.api.Get(v.context(), ref.Kind, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(stored, &o); err != nil {
		return nil, err
	}
	ref.UID = string(o.UID)
	data := &deletion{
		Ref: ref, UID: ref.UID, Finalizers: o.Finalizers, Deleting: o.DeletionTimestamp != nil,
		Propagation: string(metav1.DeletePropagationBackground), Back: objectURL(ref),
	}
	if !v.may("delete", ref.Kind, ref.Namespace, ref.Name) {
		data.Missing = right("delete", ref.Kind, ref.Namespace)
	}
	v.addFamily(data)
	if err := v.addContents(data, stored); err != nil {
		return nil, err
	}
	data.Type = len(data.Family) > manyGo || data.Holds
	return data, nil
}

// addContents counts what is in a namespace, or of a kind that would not be served any
// more: that goes with it, without naming it as an owner.
func (v *visit) addContents(data *deletion, stored json.RawMessage) (err error) {
	switch data.Kind.Kind + "." + data.Group {
	case "Namespace.":
		data.Holds = true
		data.Contents, err = v.api.Contents(v.context(), data.Name)
	case "CustomResourceDefinition.apiextensions.k8s.io":
		data.Holds = true
		var kind inspect.Kind
		if kind, err = v.defined(stored); err == nil {
			data.Contents = []asuser.Tally{v.api.Count(v.context(), kind, "")}
		}
	}
	return err
}

// defined is the kind that a definition defines.
func (v *visit) defined(stored json.RawMessage) (inspect.Kind, error) {
	var o struct {
		Spec struct {
			Group    string
			Scope    string
			Names    struct{ Kind, Plural string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	if err := json.Unmarshal(stored, &o); err != nil {
		return inspect.Kind{}, fmt.Errorf("understand the definition of a kind: %w", err)
	}
	kind := inspect.Kind{Group: o.Spec.Group, Kind: o.Spec.Names.Kind, Plural: o.Spec.Names.Plural, Namespaced: o.Spec.Scope == "Namespaced"}
	for _, version := range o.Spec.Versions {
		if version.Served {
			kind.Version = version.Name
		}
	}
	return kind, nil
}

// Counted are those of the contents that there are some of, the most first.
func (data *deletion) Counted() []asuser.Tally {
	counted := slices.DeleteFunc(slices.Clone(data.Contents), func(t asuser.Tally) bool { return t.Count == 0 })
	slices.SortStableFunc(counted, func(a, b asuser.Tally) int { return cmp.Compare(b.Count, a.Count) })
	return counted
}

// Uncounted are those of the contents of which nobody said how many there are.
func (data *deletion) Uncounted() []asuser.Tally {
	return slices.DeleteFunc(slices.Clone(data.Contents), func(t asuser.Tally) bool { return t.Err == nil })
}

// ContentsURL is where the objects of a kind are that are inside.
func (data *deletion) ContentsURL(kind inspect.Kind) string {
	if data.Kind.Kind != "Namespace" {
		return resourceURL(kind)
	}
	return resourceURL(kind) + "?" + url.Values{"namespace": {data.Name}}.Encode()
}

// addFamily asks those who care for the object which children it has, and the API
// server what else names it as an owner.
func (v *visit) addFamily(data *deletion) {
	data.Cares, _ = v.about(data.Ref) // A process that is silent knows no less than the API server.
	var kinds []inspect.Kind
	for _, c := range caring(v.ask(), data.Kind) {
		for _, kind := range c.Children {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	if len(data.Cares) > 0 && !slices.Contains(kinds, revisionKind) {
		kinds = append(kinds, revisionKind)
	}
	found, err := v.api.Dependents(v.context(), data.Ref, kinds)
	if err != nil {
		data.Unknown = err.Error()
	}
	for _, kind := range slices.Concat(kinds, asuser.MadeOf(data.Kind)) {
		if !slices.Contains(data.Looked, kind.Plural) {
			data.Looked = append(data.Looked, kind.Plural)
		}
	}
	data.add(found, 0)
	for _, care := range data.Cares {
		for i := range care.Family {
			child := care.Family[i].Ref
			same := func(g goner) bool {
				return sameKind(g.Kind, child.Kind) && g.Namespace == child.Namespace && g.Name == child.Name
			}
			if !slices.ContainsFunc(data.Family, same) && v.may("get", child.Kind, child.Namespace, child.Name) {
				data.Family = append(data.Family, goner{Ref: child})
			}
		}
	}
}

func (data *deletion) add(found []asuser.Dependent, depth int) {
	for i := range found {
		data.Family = append(data.Family, goner{found[i].Ref, depth})
		data.add(found[i].Dependents, depth+1)
	}
}

// deleteObject deletes it, if it is still the one that the page was about.
func deleteObject(v *visit) error {
	data, err := v.deletion()
	if errors.Is(err, inspect.ErrNotFound) || apierrors.IsNotFound(err) {
		return v.goneAlready()
	}
	if err != nil {
		return err
	}
	data.Propagation = cmp.Or(v.field("propagation"), data.Propagation)
	if data.Type && v.field("confirm") != data.Name {
		data.Problem = "Type the name " + data.Name + " to delete it with all that goes with it."
		return v.renderDeletion(data, http.StatusUnprocessableEntity)
	}
	err = v.api.Delete(v.context(), data.Kind, data.Namespace, data.Name, asuser.DeleteOptions{
		UID: v.field("uid"), Propagation: metav1.DeletionPropagation(data.Propagation),
	})
	switch {
	case apierrors.IsNotFound(err):
		return v.goneAlready()
	case apierrors.IsConflict(err):
		data.Problem = "This is another " + data.Kind.Kind + " of the same name: the one you meant is gone already. Look at it before you delete it."
		return v.renderDeletion(data, http.StatusConflict)
	case err != nil:
		p := problemOf(err)
		data.Problem = p.Text
		return v.renderDeletion(data, p.Status)
	}
	text := data.Kind.Kind + " " + data.Name + " is deleted."
	if len(data.Finalizers) > 0 || data.Propagation == string(metav1.DeletePropagationForeground) {
		text = data.Kind.Kind + " " + data.Name + " is being deleted. It goes as soon as nothing holds it any more."
	}
	v.flash(text)
	return v.redirect(v.listURL(data.Ref))
}

func (v *visit) goneAlready() error {
	ref, err := v.addressed()
	if err != nil {
		return err
	}
	v.flash(ref.Kind.Kind + " " + ref.Name + " was gone already.")
	return v.redirect(v.listURL(ref))
}

// listURL is the list that an object is, or was, in: of all namespaces if the visitor
// may list those.
func (v *visit) listURL(ref inspect.Ref) string {
	if ref.Namespace == "" || v.may("list", ref.Kind, "", "") {
		return resourceURL(ref.Kind)
	}
	return resourceURL(ref.Kind) + "?" + url.Values{"namespace": {ref.Namespace}}.Encode()
}
