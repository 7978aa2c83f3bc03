package edit

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func showCreate(req *request) error {
	kind, err := req.PathKind()
	if err != nil {
		return err
	}
	namespace := targetNamespace(kind, req.Query("namespace"))
	forbidden := req.requireAccess("create", kind, namespace, "")
	if forbidden != nil && !kind.Namespaced {
		return forbidden
	}
	d := req.newDraft(object.Ref{Kind: kind})
	if forbidden != nil { // Another namespace may work.
		p := web.ProblemOf(forbidden)
		d.Problem, d.Commands = p.Text, p.Commands
		d.Hint = "Choose another namespace. Or a cluster admin can grant the permission with:"
	}
	if kind.Namespaced {
		d.values.Set(".metadata.namespace", namespace)
	}
	d.Text = form.FormatYAML(d.skeleton(namespace))
	if req.Query("as") == modeYAML {
		d.Mode = modeYAML
	}
	return req.renderDraft(d, 0)
}

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

func createObject(req *request) error {
	target := func() (object.Ref, error) {
		kind, err := req.PathKind()
		return object.Ref{Kind: kind}, err
	}
	return req.submitDraft("create", target, func(d *draft, parsed map[string]any) error {
		dry := req.wantsPreview(parsed)
		namespace, _ := object.FieldAt(parsed, "metadata", "namespace").(string)
		body, err := json.Marshal(parsed)
		if err != nil {
			return err
		}
		stored, err := req.API.Create(req.Context(), d.Kind, targetNamespace(d.Kind, namespace), body, userclient.WriteOptions{DryRun: dry})
		switch {
		case err != nil:
			return req.renderRejected(d, err)
		case dry:
			return req.renderPreview(d, parsed, parsed, stored)
		}
		var made struct{ Metadata object.Ref }
		if err := json.Unmarshal(stored, &made); err != nil {
			return err
		}
		req.Flash(d.Kind.Kind + " " + made.Metadata.Name + " created.")
		made.Metadata.Kind = d.Kind
		return req.Redirect(web.ObjectURL(made.Metadata))
	})
}

// submitDraft reads the form of a draft. It stores the object, or updates the form. Drafts take
// memory and time, so only some are read at a time, and parsed for users with the permission.
func (req *request) submitDraft(verb string, target func() (object.Ref, error), store func(d *draft, parsed map[string]any) error) error {
	user := req.User.Name
	if !req.pages.drafts.Acquire(user) {
		return &web.Problem{
			Status: http.StatusTooManyRequests, Title: "Too many requests",
			Text: "Other forms are sent at the same time. Nothing was changed.", Hint: "Go back and send it again.",
		}
	}
	release := sync.OnceFunc(func() { req.pages.drafts.Release(user) })
	defer release()
	if err := req.CheckWrite(); err != nil {
		return err
	}
	ref, err := target()
	if err == nil {
		namespace := ref.Namespace
		if ref.Name == "" {
			namespace = req.enteredNamespace(ref.Kind)
		}
		err = req.requireAccess(verb, ref.Kind, namespace, ref.Name)
	}
	if err != nil {
		p := *web.ProblemOf(err) // With the form, to be sent again later.
		if p.Form = req.R.PostForm; p.AutoRetry {
			p.AutoRetry, p.Hint = false, "Your input is kept. Send it again when the API server responds."
		}
		return &p
	}
	d := req.newDraft(ref)
	d.release = release
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

// applyButton handles buttons that only change the form: adding or removing a row, or turning to YAML.
func (req *request) applyButton(d *draft) bool {
	add, remove, to := req.Field("add"), req.Field("remove"), req.Field("turn")
	switch {
	case add != "":
		form.Add(d.values, add)
	case remove != "":
		form.Remove(d.values, remove)
	case to != "":
		d.turnToYAML()
	default:
		return false
	}
	return true
}

func showEdit(req *request) error {
	ref, err := req.RefFromURL()
	if err != nil {
		return err
	}
	if err := req.requireAccess("patch", ref.Kind, ref.Namespace, ref.Name); err != nil {
		return err
	}
	d := req.newDraft(ref)
	if err := req.loadStored(d); err != nil {
		return err
	}
	d.Text = d.Base()
	return req.renderDraft(d, 0)
}

// saveObject saves the changes. It patches only what changed, so that hidden fields stay.
func saveObject(req *request) error {
	return req.submitDraft("patch", req.RefFromURL, func(d *draft, parsed map[string]any) error {
		patch, dry := object.PatchBetween(d.base, parsed), req.wantsPreview(parsed)
		if len(patch) == 0 && !dry {
			req.Flash("Nothing was changed.")
			return req.Redirect(d.Cancel)
		}
		stored, err := req.patchLatest(d, patch, userclient.WriteOptions{DryRun: dry})
		switch {
		case errors.Is(err, errConcurrentChange):
			return req.renderDraft(d, http.StatusConflict)
		case err != nil:
			return req.renderRejected(d, err)
		case dry:
			return req.renderPreview(d, parsed, object.MergePatch(d.stored, patch), stored)
		}
		req.Flash(d.Kind.Kind + " " + d.Ref.Name + " saved.")
		return req.Redirect(d.Cancel)
	})
}

func (req *request) renderRejected(d *draft, err error) error {
	p := web.ProblemOf(err)
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
		d.Troubled = processes.Troubled(processes.Visible(req.Processes.Fetch(req.Context()), req.Can), d.Kind)
	}
	d.Problems = slices.CompactFunc(d.Problems, func(a, b form.Problem) bool { return a.Field == b.Field && a.Message == b.Message })
	return req.Render(web.Page{
		Name: "resource_draft", Title: d.Title(), Section: "resources", Static: true, Status: status, Data: d,
	})
}

// maxConflicts is how often to retry a conflict without visible changes, such as a status update.
const maxConflicts = 5

// errConcurrentChange is returned if others changed the object. The draft shows what.
var errConcurrentChange = errors.New("the object changed")

// patchLatest patches the object, unless others have changed what users edit since the page was
// loaded: then the draft shows their changes, and merges them with those of the user.
func (req *request) patchLatest(d *draft, patch map[string]any, o userclient.WriteOptions) (stored json.RawMessage, err error) {
	for race := 0; race == 0 || race < maxConflicts && apierrors.IsConflict(err); race++ {
		base, digest := d.base, d.Digest
		if err := req.loadStored(d); err != nil {
			return nil, err
		}
		if d.Digest != digest {
			d.Changes, d.Text = diffObjects(base, d.base), form.FormatYAML(object.MergePatch(d.base, patch))
			d.Problem = "This " + d.Kind.Kind + " changed while you edited it."
			d.Hint = "Your changes are merged with the other changes below. Check them and save again."
			return nil, errConcurrentChange
		}
		body, invalid := json.Marshal(object.MergePatch(patch, map[string]any{"metadata": map[string]any{"resourceVersion": d.version}}))
		if invalid != nil {
			return nil, invalid
		}
		stored, err = req.API.Patch(req.Context(), d.Ref, types.MergePatchType, body, o)
	}
	return stored, err
}

// diffObjects returns the changes between two objects; none if they are too large to compare.
func diffObjects(before, after map[string]any) []inspect.Change {
	left, _ := json.Marshal(before) //nolint:errchkjson // It was JSON before.
	right, _ := json.Marshal(after) //nolint:errchkjson // It was JSON before.
	changes, _ := diff.Objects(left, right)
	return changes
}
