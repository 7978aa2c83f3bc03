package edit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The input modes.
const (
	modeForm = "form"
	modeYAML = "yaml"
)

// draft is an object in the editor: a new one as a form or YAML, a stored one as YAML. Its page carries the loaded object
// and the input.
type draft struct {
	object.Kind
	Ref object.Ref
	// Mode is the input mode. Without a schema there is no form for a new object, and NoFormReason says why.
	Mode, NoFormReason string
	// Digest is that of what users edit in the stored object; "" for a new one.
	Digest string
	// Root has the fields of the form, Text the YAML.
	Root *form.Field
	Text string
	// Problem is about the whole object, Problems are about fields that are not on the page, Hint says what to do.
	Problem, Hint string
	Problems      []form.Problem
	// Commands are commands that may solve it.
	Commands []string
	// Changes are concurrent changes of others.
	Changes []inspect.Change
	// Cancel is the URL to return to.
	Cancel string
	// Troubled are the controllers of the kind of a new object that are not well.
	Troubled []processes.ControllerRow
	// Preview is what saving it would do; nil for none.
	Preview *preview

	form *form.Form
	// stored is what users edit in the stored object, base the same with placeholders of hidden values, as
	// the page showed it. version is the resource version.
	stored, base map[string]any
	version      string
	digester     secretDigester
	values       url.Values
	// release ends its claim on the memory of drafts before it is stored.
	release func()
}

func (d *draft) Title() string {
	if d.Existing() {
		return "Edit " + d.Ref.Name
	}
	return "New " + d.Kind.Kind
}

func (d *draft) Submit() string {
	if d.Existing() {
		return "Save"
	}
	return "Create"
}

func (d *draft) InvalidFields() (invalid []*form.Field) {
	if d.Mode == modeForm {
		d.Root.Walk(func(f *form.Field) {
			if len(f.Problems) > 0 {
				invalid = append(invalid, f)
			}
		})
	}
	return invalid
}

func (d *draft) Action() string {
	if d.Existing() {
		return web.ObjectURL(d.Ref, "edit")
	}
	return web.ResourceURL(d.Kind) + "/new"
}

func (d *draft) Existing() bool { return d.Ref.Name != "" }

func (d *draft) Base() string { return form.FormatYAML(d.base) }

func (d *draft) HasForm() bool { return d.form != nil }

// newDraft returns a draft of an object; a new one has no name yet, and a form if the kind has a schema.
func (req *request) newDraft(ref object.Ref) *draft {
	kind := ref.Kind
	d := &draft{Kind: kind, Ref: ref, Mode: modeForm, digester: req.pages.digester, values: url.Values{}, Cancel: web.ResourceURL(kind)}
	if d.Existing() {
		d.Mode, d.Cancel = modeYAML, web.ObjectURL(ref)
		return d
	}
	schema, known, err := req.API.Schema(req.Context(), kind)
	if err != nil {
		d.Mode, d.NoFormReason = modeYAML, "No form for this kind: "+err.Error()+"."
		if errors.Is(err, failure.ErrNotFound) {
			d.NoFormReason += newKindHint
		}
		return d
	}
	options := form.Options{APIVersion: kind.APIVersion(), Kind: kind.Kind, Namespaced: kind.Namespaced}
	if kind.Namespaced {
		// Users who may not list namespaces type a name.
		options.Namespaces, _ = req.API.Namespaces(req.Context())
	}
	d.form = form.New(schema, known, options)
	return d
}

const newKindHint = " The schema of a new kind takes a moment: reload the page."

func (req *request) loadStored(d *draft) error {
	raw, err := req.API.Get(req.Context(), d.Ref.Kind, d.Ref.Namespace, d.Ref.Name)
	if err != nil {
		return err
	}
	return d.setStored(raw)
}

func (d *draft) setStored(raw json.RawMessage) error {
	object, err := form.DecodeJSON(raw)
	if err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	d.version, _ = metadata["resourceVersion"].(string)
	d.stored = editableFields(object)
	d.Digest = d.digester.sum([]any{metadata["uid"], d.stored})
	d.base = replaceSecretValues(d.stored, func(string, any) string { return unchangedValue })
	return nil
}

// editableFields returns the fields of an object that users edit.
func editableFields(stored map[string]any) map[string]any {
	made := object.MergePatch(stored, map[string]any{"status": nil})
	metadata, _ := stored["metadata"].(map[string]any)
	editable := map[string]any{}
	for _, name := range []string{"name", "namespace", "generateName", "labels", "annotations", "finalizers", "ownerReferences"} {
		if value, is := metadata[name]; is {
			editable[name] = value
		}
	}
	made["metadata"] = editable
	return made
}

func (d *draft) readForm(req *request) error {
	d.values, d.Digest = req.R.PostForm, req.Field("digest")
	d.Text = strings.ReplaceAll(req.Field("text"), "\r\n", "\n")
	switch as := req.Field("as"); {
	case d.Existing():
		return d.readBase(req.Field("base"))
	case as == modeForm && d.form == nil:
		return &web.Problem{
			Status: http.StatusServiceUnavailable, Title: "Schema unavailable", Text: strings.TrimSuffix(d.NoFormReason, newKindHint),
			Hint: "Your input is editable. Send it again in a moment.", Form: d.values,
		}
	case as == modeYAML:
		d.Mode = modeYAML
	case req.Field("whole") == "":
		// Missing fields would be missing in the object.
		return web.BadRequest("The form was sent before the page finished loading. Nothing was changed. Go back and send it again.")
	}
	return nil
}

func (d *draft) readBase(text string) error {
	base, err := form.ParseYAML(text)
	if err != nil {
		return web.BadRequest("The form is invalid: %v. Reload the page.", err)
	}
	if d.base, _ = base.(map[string]any); d.base == nil {
		return web.BadRequest("The form is incomplete. Reload the page.")
	}
	return nil
}

// parse returns the object of the input. If the input is invalid, it sets the problem that the page shows.
func (d *draft) parse() (object map[string]any, valid bool) {
	if d.Mode == modeYAML {
		object = d.parseYAML()
	} else {
		object = d.parseForm()
	}
	return object, object != nil && d.checkSecretValues(object)
}

// parseForm returns the object of the form; nil if it is invalid.
func (d *draft) parseForm() map[string]any {
	root, err := d.form.Read(d.values)
	if err != nil {
		d.Problem = format.Capitalize(err.Error()) + "."
		return nil
	}
	object, problems := d.form.Object(root)
	d.Root = root
	if len(problems) > 0 {
		d.addProblems(problems...)
		d.Problem = "Some fields are missing or invalid."
		return nil
	}
	return object
}

// parseYAML returns the object of the YAML; nil if it is invalid.
func (d *draft) parseYAML() map[string]any {
	value, err := form.ParseYAML(d.Text)
	if err != nil {
		d.Problem = err.Error()
		return nil
	}
	object, is := value.(map[string]any)
	if !is {
		d.Problem = "This is not an object: it needs apiVersion and kind."
		return nil
	}
	for name, want := range map[string]string{"apiVersion": d.APIVersion(), "kind": d.Kind.Kind} {
		if _, there := object[name]; !there {
			object[name] = want
		}
		if object[name] != want {
			d.Problem = fmt.Sprintf("%s is %v, but must be %s on this page.", name, object[name], want)
			return nil
		}
	}
	return object
}

// checkSecretValues rejects placeholders of values that do not exist.
func (d *draft) checkSecretValues(object map[string]any) (valid bool) {
	missing := missingSecretValues(d.base, object)
	if len(missing) > 0 {
		d.Problem = "A value is missing."
	}
	for _, path := range missing {
		d.addProblems(form.Problem{Field: path, Message: "There is no current value. Enter one."})
	}
	return len(missing) == 0
}

// addProblems adds problems to their fields, or to the page.
func (d *draft) addProblems(problems ...form.Problem) {
	if d.Mode == modeForm && d.Root != nil {
		problems = d.Root.AddProblems(problems)
	}
	d.Problems = append(d.Problems, problems...)
}

// turnToYAML shows the input of the form as YAML. Invalid input must be fixed first.
func (d *draft) turnToYAML() {
	if object, valid := d.parse(); valid && d.Mode == modeForm {
		d.Mode, d.Text = modeYAML, form.FormatYAML(object)
	}
}

func (d *draft) buildForm() {
	if d.Mode != modeForm || d.Root != nil {
		return
	}
	root, err := d.form.Read(d.values)
	if err != nil {
		d.Mode, d.Problem = modeYAML, format.Capitalize(err.Error())+"."
		return
	}
	d.Root = root
}

func (req *request) enteredNamespace(kind object.Kind) string {
	namespace := req.Field(".metadata.namespace")
	if req.Field("as") == modeYAML {
		value, _ := form.ParseYAML(req.Field("text")) // Errors are shown later.
		entered, _ := value.(map[string]any)
		namespace, _ = object.FieldAt(entered, "metadata", "namespace").(string)
	}
	return targetNamespace(kind, namespace)
}

func targetNamespace(kind object.Kind, named string) string {
	return kind.Within(cmp.Or(named, "default"))
}

func (req *request) requireAccess(verb string, kind object.Kind, namespace, name string) error {
	if req.Can(verb, kind, namespace, name) {
		return nil
	}
	return cmp.Or(req.AccessError(), error(web.PermissionProblem(userclient.Permission{
		User: req.User.Name, Verb: verb, Resource: kind.Plural, Group: kind.Group, Namespace: namespace,
	})))
}

// preview is what saving a draft would do. Nothing was written.
type preview struct {
	// Stored is what the API server would store, as a diff.
	Stored objects.Body
	// Additions are what the API server would change in the input: defaults and admission.
	Additions objects.FieldChanges
	// Plans are what controllers would do afterwards. NoPlanReason is why there are none, and
	// Warnings say which are missing.
	Plans        []objects.Plan
	NoPlanReason string
	Warnings     []string
	// Digest identifies the input. Outdated reports that the user saved another input than the
	// one of the preview before.
	Digest   string
	Outdated bool
	At       time.Time
}
