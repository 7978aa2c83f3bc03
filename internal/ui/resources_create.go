package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// showCreate is the page on which an object is made.
func showCreate(v *visit) error {
	kind, err := v.api.Kind(v.context(), v.path("resource"))
	if err != nil {
		return err
	}
	namespace := namespaceFor(kind, v.likelyNamespace())
	lacking := v.needs("create", kind, namespace, "")
	if lacking != nil && !kind.Namespaced {
		return lacking
	}
	d := v.newDraft(kind, inspect.Ref{})
	if lacking != nil {
		d.warn(lacking)
	}
	if d.form != nil {
		d.values = d.form.Blank()
	}
	if kind.Namespaced {
		d.values.Set(".metadata.namespace", namespace)
	}
	d.Text = form.PrintYAML(d.skeleton(namespace))
	if v.query("as") == entersYAML {
		d.As = entersYAML
	}
	d.show()
	if d.Root != nil {
		d.Root.FocusOn(".metadata.name")
	}
	return v.renderDraft(d, 0)
}

// likelyNamespace is where a visitor who says nothing else means.
func (v *visit) likelyNamespace() string {
	if wanted := v.query("namespace"); wanted != "" {
		return wanted
	}
	return "default"
}

// skeleton is an object to begin with, as YAML.
func (d *draft) skeleton(namespace string) map[string]any {
	metadata := map[string]any{"name": ""}
	if d.Namespaced {
		metadata["namespace"] = namespace
	}
	made := map[string]any{"apiVersion": apiVersion(d.Kind), "kind": d.Kind.Kind, "metadata": metadata}
	if d.form != nil && d.form.Has("spec") {
		made["spec"] = map[string]any{}
	}
	return made
}

// createObject makes what is entered, or goes on with entering it.
func createObject(v *visit) error {
	kind, err := v.api.Kind(v.context(), v.path("resource"))
	if err != nil {
		return err
	}
	done, err := v.work(v.context())
	if err != nil {
		return err
	}
	defer done()
	if err := v.mayCreate(kind); err != nil {
		return err
	}
	d := v.newDraft(kind, inspect.Ref{})
	if err := d.receive(v); err != nil {
		return err
	}
	if v.goesOn(d) {
		return v.renderDraft(d, 0)
	}
	object, err := d.object()
	if errors.Is(err, errEntered) {
		return v.renderDraft(d, http.StatusUnprocessableEntity)
	}
	stored, err := v.createIn(kind, object)
	if err != nil {
		return v.refuse(d, err)
	}
	var made struct{ Metadata inspect.Ref }
	if err := json.Unmarshal(stored, &made); err != nil {
		return err
	}
	v.flash(kind.Kind + " " + made.Metadata.Name + " is created.")
	made.Metadata.Kind = kind
	return v.redirect(objectURL(made.Metadata))
}

// createIn creates an object in the namespace that it names.
func (v *visit) createIn(kind inspect.Kind, object map[string]any) (json.RawMessage, error) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	namespace = namespaceFor(kind, namespace)
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return v.api.Create(v.context(), kind, namespace, body)
}

// goesOn does what a button wants that only changes the page: a row more or less, or
// the other way of entering.
func (v *visit) goesOn(d *draft) bool {
	add, remove, to := v.field("add"), v.field("remove"), v.field("turn")
	switch {
	case add != "":
		form.Add(d.values, add)
		d.show()
		if d.Root != nil {
			d.Root.FocusOn(add)
		}
	case remove != "":
		form.Remove(d.values, remove)
	case to == entersForm || to == entersYAML:
		d.turn(to)
	default:
		return false
	}
	return true
}

// refuse shows the page again with what the API server says. Only what cannot be
// mended by entering something else is a page of its own.
func (v *visit) refuse(d *draft, err error) error {
	p := problemOf(err)
	if unreachable(err) {
		d.Problem, d.Hint = p.Text, "Nothing is lost: send it again once the API server answers."
		return v.renderDraft(d, p.Status)
	}
	d.refused(err)
	d.Commands = p.Commands
	if apierrors.IsAlreadyExists(err) && d.As == entersForm {
		d.Problem, d.Hint = "There is one with this name already.", "Choose another name."
		d.place([]form.Problem{{Field: "metadata.name", Message: "This name is taken."}})
	}
	return v.renderDraft(d, p.Status)
}

// draftPage is what the page of a draft shows.
type draftPage struct {
	*draft
	// Title is what the page does, Submit what its button does.
	Title, Submit string
	// Marked are the fields that have problems.
	Marked []*form.Field
}

func (v *visit) renderDraft(d *draft, status int) error {
	d.show()
	shown := draftPage{draft: d, Title: "New " + d.Kind.Kind, Submit: "Create"}
	if d.Existing() {
		shown.Title, shown.Submit = "Edit "+d.Ref.Name, "Save"
	}
	if d.As == entersForm {
		d.Root.Each(func(f *form.Field) {
			if len(f.Problems) > 0 {
				shown.Marked = append(shown.Marked, f)
			}
		})
	}
	d.Problems = slices.CompactFunc(d.Problems, func(a, b form.Problem) bool { return a.Field == b.Field && a.Message == b.Message })
	return v.render(page{
		Name: "resource_draft", Title: shown.Title, Section: "resources", Still: true, Status: status, Data: shown,
	})
}
