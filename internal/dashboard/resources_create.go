package dashboard

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// showCreate shows the form for a new object.
func showCreate(req *request) error {
	kind, err := req.pathKind()
	if err != nil {
		return err
	}
	namespace := targetNamespace(kind, req.defaultNamespace())
	forbidden := req.requireAccess("create", kind, namespace, "")
	if forbidden != nil && !kind.Namespaced {
		return forbidden
	}
	d := req.newDraft(object.Ref{Kind: kind})
	if forbidden != nil {
		d.warnForbidden(forbidden)
	}
	if d.form != nil {
		d.values = d.form.Blank()
	}
	if kind.Namespaced {
		d.values.Set(".metadata.namespace", namespace)
	}
	d.Text = form.FormatYAML(d.skeleton(namespace))
	if req.query("as") == modeYAML {
		d.Mode = modeYAML
	}
	d.buildForm()
	if d.Root != nil {
		d.Root.FocusOn(".metadata.name")
	}
	return req.renderDraft(d, 0)
}

// defaultNamespace returns the namespace to preselect.
func (req *request) defaultNamespace() string {
	if wanted := req.query("namespace"); wanted != "" {
		return wanted
	}
	return "default"
}

// skeleton returns the YAML to start with.
func (d *draft) skeleton(namespace string) map[string]any {
	metadata := map[string]any{"name": ""}
	if d.Namespaced {
		metadata["namespace"] = namespace
	}
	made := map[string]any{"apiVersion": d.APIVersion(), "kind": d.Kind.Kind, "metadata": metadata}
	if d.form != nil && d.form.HasField("spec") {
		made["spec"] = map[string]any{}
	}
	return made
}

// createObject creates the object of the form, or updates the form.
func createObject(req *request) error {
	return req.submitDraft(req.creatableKind, func(d *draft, parsed map[string]any) error {
		if req.wantsPreview(parsed) {
			return req.previewCreate(d, parsed)
		}
		stored, err := req.create(d.Kind, parsed, userclient.WriteOptions{})
		if err != nil {
			return req.renderRejected(d, err)
		}
		var made struct{ Metadata object.Ref }
		if err := json.Unmarshal(stored, &made); err != nil {
			return err
		}
		req.flash(d.Kind.Kind + " " + made.Metadata.Name + " created.")
		made.Metadata.Kind = d.Kind
		return req.redirect(objectURL(made.Metadata))
	})
}

// submitDraft reads the form of a draft. It stores the object, or updates the form. Drafts take
// memory and time, so their users need permission for the target first, and only some are read
// at a time.
func (req *request) submitDraft(target func() (object.Ref, error), store func(d *draft, parsed map[string]any) error) error {
	user := req.identity.User.Name
	if !req.drafts.acquire(user) {
		return tooManyDrafts()
	}
	defer req.drafts.release(user)
	ref, missing := target()
	unknown := missing != nil && (userclient.IsUnreachable(missing) || req.accessErrors.first() != nil)
	if missing != nil && !unknown {
		return missing
	}
	if err := req.checkWrite(); err != nil {
		return err
	}
	if unknown {
		return req.accessUnknown(missing)
	}
	done, err := req.acquireDraftSlot(req.context())
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done()
	if ref.Name == "" {
		if err := req.requireCreate(ref.Kind); err != nil {
			return err
		}
	}
	d := req.newDraft(ref)
	d.release = done
	if err := d.readForm(req); err != nil {
		return err
	}
	if req.applyButton(d) {
		return req.renderDraft(d, 0)
	}
	parsed, valid := d.parse()
	if !valid {
		return req.renderDraft(d, http.StatusUnprocessableEntity)
	}
	return store(d, parsed)
}

// create creates an object in its namespace.
func (req *request) create(kind object.Kind, object map[string]any, o userclient.WriteOptions) (json.RawMessage, error) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	namespace = targetNamespace(kind, namespace)
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return req.api.Create(req.context(), kind, namespace, body, o)
}

// applyButton handles buttons that only change the form: adding or removing a row, or turning to YAML.
func (req *request) applyButton(d *draft) bool {
	add, remove, to := req.field("add"), req.field("remove"), req.field("turn")
	switch {
	case add != "":
		form.Add(d.values, add)
		d.buildForm()
		if d.Root != nil {
			d.Root.FocusOn(add)
		}
	case remove != "":
		form.Remove(d.values, remove)
	case to != "":
		d.turnToYAML()
	default:
		return false
	}
	return true
}

// renderRejected shows the form again with the error of the API server.
func (req *request) renderRejected(d *draft, err error) error {
	p := problemOf(err)
	text, fields := userclient.DescribeError(err)
	d.Problem, d.Hint, d.Commands = text, p.Hint, p.Commands
	switch {
	case userclient.IsUnreachable(err):
		d.Problem, d.Hint = p.Text, "Your input is kept. Send it again when the API server responds."
	case apierrors.IsNotFound(err) && d.Existing():
		d.Problem = "This " + d.Kind.Kind + " was deleted while you edited it."
		d.Hint = "Nothing was written, and your input is kept. To create it again, copy the YAML into a new " + d.Kind.Kind + "."
	case apierrors.IsAlreadyExists(err) && d.Mode == modeForm:
		d.Problem, d.Hint = "An object with this name already exists.", "Choose another name."
		d.addProblems(form.Problem{Field: "metadata.name", Message: "This name is already in use."})
	case len(fields) > 0:
		d.Problem = "The API server rejected this " + d.Kind.Kind + "."
	}
	for _, each := range fields {
		d.addProblems(form.Problem{Field: each.Field, Message: each.Message})
	}
	return req.renderDraft(d, p.Status)
}

func (req *request) renderDraft(d *draft, status int) error {
	d.buildForm()
	if !d.Existing() {
		d.Troubled = troubledControllers(req.visibleProcesses(req.fetchProcesses()), d.Kind)
	}
	d.Problems = slices.CompactFunc(d.Problems, func(a, b form.Problem) bool { return a.Field == b.Field && a.Message == b.Message })
	return req.render(page{
		Name: "resource_draft", Title: d.Title(), Section: "resources", Static: true, Status: status, Data: d,
	})
}
