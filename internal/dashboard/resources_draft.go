package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// The two ways of entering an object.
const (
	modeForm = "form"
	modeYAML = "yaml"
)

// draft is an object while it is entered. It travels with its page: what was loaded,
// what became of that in the other way of entering, and what is entered now.
type draft struct {
	model.Kind
	Ref model.Ref
	// Mode is how it is entered. Without a schema there is no form, and NoFormReason says why.
	Mode, NoFormReason string
	// Version is the resource version of what was loaded; "" for a new object.
	Version string
	// Root has the fields of the form, Text is the YAML.
	Root *form.Field
	Text string
	// Problem says what is wrong with it as a whole, Problems with what has no field
	// on the page, and Hint what to do.
	Problem, Hint string
	Problems      []form.Problem
	// Commands are what a cluster admin could type to make it work.
	Commands []string
	// Changes are what others changed meanwhile.
	Changes []model.Change
	// Cancel leads away.
	Cancel string

	form *form.Form
	// base is what was loaded, and before what the form's fields are laid over: the
	// same, unless it was edited as YAML.
	base, formBase map[string]any
	// secretDigests stands for the values of what was loaded that are not shown.
	secretDigests secretDigests
	digester      *secretDigester
	values        url.Values
}

// Existing says that the object is there already.
func (d *draft) Existing() bool { return d.Ref.Name != "" }

// Base and Before are hidden fields of the page.
func (d *draft) Base() string { return encodeObject(d.base) }

// SecretDigests is one too.
func (d *draft) SecretDigests() string { return d.secretDigests.String() }

// FormBase is empty if it is the Base.
func (d *draft) FormBase() string {
	if form.Equal(d.formBase, d.base) {
		return ""
	}
	return encodeObject(d.formBase)
}

// newDraft is a draft of a kind, by its form if it has a schema.
func (req *request) newDraft(kind model.Kind, ref model.Ref) *draft {
	d := &draft{Kind: kind, Ref: ref, Mode: modeForm, digester: req.digester, values: url.Values{}, Cancel: resourceURL(kind)}
	schema, known, err := req.api.Schema(req.context(), kind)
	if err != nil {
		d.Mode, d.NoFormReason = modeYAML, "No form for this kind: "+err.Error()+"."
		if errors.Is(err, model.ErrNotFound) {
			d.NoFormReason += newKindHint
		}
		return d
	}
	options := form.Options{
		APIVersion: apiVersion(kind), Kind: kind.Kind, Namespaced: kind.Namespaced, Existing: d.Existing(),
	}
	if kind.Namespaced && !options.Existing {
		// Who may not list namespaces types the name of one.
		options.Namespaces, _ = req.api.Namespaces(req.context())
	}
	d.form = form.New(schema, known, options)
	return d
}

const newKindHint = " The schema of a new kind takes a moment: reload the page."

func apiVersion(kind model.Kind) string {
	return strings.TrimPrefix(kind.Group+"/"+kind.Version, "/")
}

// loadStored begins with an object as it is stored.
func (d *draft) loadStored(stored json.RawMessage) error {
	object, err := form.DecodeJSON(stored)
	if err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	d.Version, _ = metadata["resourceVersion"].(string)
	entered := editableFields(object)
	d.base = maskSecrets(entered)
	uid, _ := metadata["uid"].(string)
	d.secretDigests = d.digester.digest(uid, entered, d.base)
	d.setObject(d.base)
	return nil
}

// editableFields is of an object what people enter.
func editableFields(object map[string]any) map[string]any {
	made := form.Apply(object, map[string]any{"status": nil})
	metadata, _ := object["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, name := range []string{"name", "namespace", "generateName", "labels", "annotations", "finalizers", "ownerReferences"} {
		if value, is := metadata[name]; is {
			kept[name] = value
		}
	}
	made["metadata"] = kept
	return made
}

// setObject fills the page with an object.
func (d *draft) setObject(object map[string]any) {
	d.formBase = object
	d.Text = form.FormatYAML(object)
	if d.form != nil {
		d.values = d.form.Values(object)
	}
}

// readForm reads what was sent.
func (d *draft) readForm(req *request) error {
	d.values, d.Version = req.r.PostForm, req.field("version")
	d.Text = strings.ReplaceAll(req.field("text"), "\r\n", "\n")
	switch as := req.field("as"); {
	case as == modeForm && d.form == nil:
		return d.schemaUnavailable()
	case as == modeYAML:
		d.Mode = modeYAML
	case req.field("whole") == "":
		// What is missing in it would be taken for removed.
		return badRequest("The form was sent before the page finished loading. Nothing was changed. Go back and send it again.")
	}
	loaded := map[string]*map[string]any{"base": &d.base, "before": &d.formBase}
	if d.Mode == modeYAML && !d.Existing() {
		loaded = nil // What is entered as YAML is laid over nothing.
	}
	for name, into := range loaded {
		object, err := decodeObject(req.field(name))
		if err != nil {
			return badRequest("The form is invalid: %v. Reload the page.", err)
		}
		*into = object
	}
	if d.formBase == nil {
		d.formBase = d.base
	}
	var err error
	if d.secretDigests, err = parseSecretDigests(req.field("sealed")); err != nil {
		return badRequest("The form is invalid: %v. Reload the page.", err)
	}
	return nil
}

// schemaUnavailable gives back a form that cannot be read for now, to be sent again as it is.
func (d *draft) schemaUnavailable() error {
	return &problem{
		Status: http.StatusServiceUnavailable, Title: "Schema unavailable", Text: strings.TrimSuffix(d.NoFormReason, newKindHint),
		Hint: "Your input is kept. Send it again in a moment.", Form: resubmittable(d.values),
	}
}

// errInvalidInput is returned where what is wrong is said on the page already.
var errInvalidInput = errors.New("invalid input")

// parse is what is entered.
func (d *draft) parse() (map[string]any, error) {
	if d.Mode == modeYAML {
		return d.parseYAML()
	}
	var err error
	if d.Root, err = d.form.Read(d.values); err != nil {
		return nil, d.setTooLarge(err)
	}
	object, problems := d.form.Object(d.Root)
	if d.formBase != nil {
		// What was there before is changed only where the form was, and what was wrong
		// with it before is no reason to keep from changing something else.
		before, known, err := d.parseForm(d.form.Values(d.formBase))
		if err != nil {
			return nil, d.setTooLarge(err)
		}
		object = form.Apply(d.formBase, form.Patch(before, object))
		problems = newProblems(problems, known)
	}
	if len(problems) > 0 {
		d.Problems = append(d.Problems, d.Root.AddProblems(problems)...)
		d.Problem = "Some fields are missing or invalid."
		return nil, errInvalidInput
	}
	return d.checkSecretValues(object)
}

func (d *draft) parseForm(values url.Values) (map[string]any, []form.Problem, error) {
	root, err := d.form.Read(values)
	if err != nil {
		return nil, nil, err
	}
	object, problems := d.form.Object(root)
	return object, problems, nil
}

// setTooLarge is what is said of a form that cannot be read at all.
func (d *draft) setTooLarge(err error) error {
	d.Problem = capitalize(err.Error()) + "."
	return errInvalidInput
}

func newProblems(problems, known []form.Problem) []form.Problem {
	var left []form.Problem
	for _, p := range problems {
		isKnown := false
		for _, k := range known {
			isKnown = isKnown || k.Field == p.Field && k.Message == p.Message
		}
		if !isKnown {
			left = append(left, p)
		}
	}
	return left
}

func (d *draft) parseYAML() (map[string]any, error) {
	value, err := form.ParseYAML(d.Text)
	if err != nil {
		d.Problem = err.Error()
		return nil, errInvalidInput
	}
	object, is := value.(map[string]any)
	if !is {
		d.Problem = "This is not an object: it needs apiVersion and kind."
		return nil, errInvalidInput
	}
	for name, want := range map[string]string{"apiVersion": apiVersion(d.Kind), "kind": d.Kind.Kind} {
		if _, there := object[name]; !there {
			object[name] = want
		}
		if object[name] != want {
			d.Problem = fmt.Sprintf("%s is %v, but must be %s on this page.", name, object[name], want)
			return nil, errInvalidInput
		}
	}
	return d.checkSecretValues(object)
}

// checkSecretValues refuses to store what stands for a value that is not shown.
func (d *draft) checkSecretValues(object map[string]any) (map[string]any, error) {
	var problems []form.Problem
	for _, path := range missingSecretValues(d.base, object) {
		problems = append(problems, form.Problem{Field: path, Message: "There is no current value. Enter one."})
	}
	if len(problems) == 0 {
		return object, nil
	}
	d.Problem = "A value is missing."
	d.addProblems(problems)
	return nil, errInvalidInput
}

// addProblems puts problems at their fields, where there are such.
func (d *draft) addProblems(problems []form.Problem) {
	if d.Mode == modeForm && d.Root != nil {
		problems = d.Root.AddProblems(problems)
	}
	d.Problems = append(d.Problems, problems...)
}

// setAPIError says on the page why the API server refuses what was entered.
func (d *draft) setAPIError(err error) {
	text, fields := userclient.DescribeError(err)
	d.Problem, d.Hint = text, problemOf(err).Hint
	var problems []form.Problem
	for _, each := range fields {
		problems = append(problems, form.Problem{Field: each.Field, Message: each.Message})
	}
	d.addProblems(problems)
	if len(problems) > 0 {
		d.Problem = "The API server rejected this " + d.Kind.Kind + "."
	}
}

// warnForbidden says that this will be refused where it is, for want of a right: another namespace
// may be entered.
func (d *draft) warnForbidden(lacking error) {
	p := problemOf(lacking)
	d.Problem, d.Commands = p.Text, p.Commands
	d.Hint = "Choose another namespace. Or a cluster admin can grant the permission with:"
}

// switchMode goes on with the other way of entering, with what is entered so far. What
// cannot be read has to be mended first.
func (d *draft) switchMode(to string) {
	if to == d.Mode || to == modeForm && d.form == nil {
		return
	}
	object, err := d.parse()
	if err != nil {
		return
	}
	d.setObject(object)
	d.Mode, d.Root = to, nil
}

// buildForm makes the fields, if that was not done yet.
func (d *draft) buildForm() {
	if d.Mode != modeForm || d.Root != nil {
		return
	}
	root, err := d.form.Read(d.values)
	if err != nil {
		d.Mode, d.Problem = modeYAML, capitalize(err.Error())+"."
		if d.formBase != nil {
			d.Text = form.FormatYAML(d.formBase)
		}
		return
	}
	d.Root = root
}
