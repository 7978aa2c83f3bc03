package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// The two ways of entering an object.
const (
	entersForm = "form"
	entersYAML = "yaml"
)

// draft is an object while it is entered. It travels with its page: what was loaded,
// what became of that in the other way of entering, and what is entered now.
type draft struct {
	inspect.Kind
	Ref inspect.Ref
	// As is how it is entered. Without a schema there is no form, and NoForm says why.
	As, NoForm string
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
	Changes []inspect.Change
	// Cancel leads away.
	Cancel string

	form *form.Form
	// base is what was loaded, and before what the form's fields are laid over: the
	// same, unless it was edited as YAML.
	base, before map[string]any
	// sealed stands for the values of what was loaded that are not shown.
	sealed seals
	sealer *sealer
	values url.Values
}

// Existing says that the object is there already.
func (d *draft) Existing() bool { return d.Ref.Name != "" }

// Base and Before are hidden fields of the page.
func (d *draft) Base() string { return packed(d.base) }

// Sealed is one too.
func (d *draft) Sealed() string { return d.sealed.String() }

// Before is empty if it is the Base.
func (d *draft) Before() string {
	if form.Equal(d.before, d.base) {
		return ""
	}
	return packed(d.before)
}

// newDraft is a draft of a kind, by its form if it has a schema.
func (v *visit) newDraft(kind inspect.Kind, ref inspect.Ref) *draft {
	d := &draft{Kind: kind, Ref: ref, As: entersForm, sealer: v.sealer, values: url.Values{}, Cancel: resourceURL(kind)}
	schema, known, err := v.api.Schema(v.context(), kind)
	if err != nil {
		d.As, d.NoForm = entersYAML, "There is no form for this kind: "+err.Error()+"."
		if errors.Is(err, inspect.ErrNotFound) {
			d.NoForm += whenNew
		}
		return d
	}
	options := form.Options{
		APIVersion: apiVersion(kind), Kind: kind.Kind, Namespaced: kind.Namespaced, Existing: d.Existing(),
	}
	if kind.Namespaced && !options.Existing {
		// Who may not list namespaces types the name of one.
		options.Namespaces, _ = v.api.Namespaces(v.context())
	}
	d.form = form.New(schema, known, options)
	return d
}

const whenNew = " A kind that is new is described a moment later: load the page again."

func apiVersion(kind inspect.Kind) string {
	return strings.TrimPrefix(kind.Group+"/"+kind.Version, "/")
}

// load begins with an object as it is stored.
func (d *draft) load(stored json.RawMessage) error {
	object, err := form.DecodeJSON(stored)
	if err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	d.Version, _ = metadata["resourceVersion"].(string)
	entered := enterable(object)
	d.base = withoutSecrets(entered)
	uid, _ := metadata["uid"].(string)
	d.sealed = d.sealer.seal(uid, entered, d.base)
	d.lay(d.base)
	return nil
}

// enterable is of an object what people enter.
func enterable(object map[string]any) map[string]any {
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

// lay fills the page with an object.
func (d *draft) lay(object map[string]any) {
	d.before = object
	d.Text = form.PrintYAML(object)
	if d.form != nil {
		d.values = d.form.Values(object)
	}
}

// receive reads what was sent.
func (d *draft) receive(v *visit) error {
	d.values, d.Version = v.r.PostForm, v.field("version")
	d.Text = strings.ReplaceAll(v.field("text"), "\r\n", "\n")
	switch as := v.field("as"); {
	case as == entersForm && d.form == nil:
		return d.keep()
	case as == entersYAML:
		d.As = entersYAML
	case v.field("whole") == "":
		// What is missing in it would be taken for removed.
		return invalid("The form was sent before the page had loaded in full. Nothing was changed: go back, and send it again.")
	}
	loaded := map[string]*map[string]any{"base": &d.base, "before": &d.before}
	if d.As == entersYAML && !d.Existing() {
		loaded = nil // What is entered as YAML is laid over nothing.
	}
	for name, into := range loaded {
		object, err := unpacked(v.field(name))
		if err != nil {
			return invalid("The page sent something unreadable: %v. Open it anew.", err)
		}
		*into = object
	}
	if d.before == nil {
		d.before = d.base
	}
	var err error
	if d.sealed, err = readSeals(v.field("sealed")); err != nil {
		return invalid("The page sent something unreadable: %v. Open it anew.", err)
	}
	return nil
}

// keep gives back a form that cannot be read for now, to be sent again as it is.
func (d *draft) keep() error {
	return &problem{
		Status: http.StatusServiceUnavailable, Title: "Not yet", Text: strings.TrimSuffix(d.NoForm, whenNew),
		Hint: "Nothing is lost: send it again in a moment.", Sent: resent(d.values),
	}
}

// errEntered is returned where what is wrong is said on the page already.
var errEntered = errors.New("what was entered cannot be read")

// object is what is entered.
func (d *draft) object() (map[string]any, error) {
	if d.As == entersYAML {
		return d.ofText()
	}
	var err error
	if d.Root, err = d.form.Read(d.values); err != nil {
		return nil, d.tooMuch(err)
	}
	object, problems := d.form.Object(d.Root)
	if d.before != nil {
		// What was there before is changed only where the form was, and what was wrong
		// with it before is no reason to keep from changing something else.
		before, known, err := d.ofForm(d.form.Values(d.before))
		if err != nil {
			return nil, d.tooMuch(err)
		}
		object = form.Apply(d.before, form.Patch(before, object))
		problems = without(problems, known)
	}
	if len(problems) > 0 {
		d.Problems = append(d.Problems, d.Root.Explain(problems)...)
		d.Problem = "Something is missing, or cannot be read."
		return nil, errEntered
	}
	return d.checked(object)
}

func (d *draft) ofForm(values url.Values) (map[string]any, []form.Problem, error) {
	root, err := d.form.Read(values)
	if err != nil {
		return nil, nil, err
	}
	object, problems := d.form.Object(root)
	return object, problems, nil
}

// tooMuch is what is said of a form that cannot be read at all.
func (d *draft) tooMuch(err error) error {
	d.Problem = title(err.Error()) + "."
	return errEntered
}

func without(problems, known []form.Problem) []form.Problem {
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

func (d *draft) ofText() (map[string]any, error) {
	value, err := form.ParseYAML(d.Text)
	if err != nil {
		d.Problem = err.Error()
		return nil, errEntered
	}
	object, is := value.(map[string]any)
	if !is {
		d.Problem = "This is no object: it has to begin with apiVersion and kind."
		return nil, errEntered
	}
	for name, want := range map[string]string{"apiVersion": apiVersion(d.Kind), "kind": d.Kind.Kind} {
		if _, there := object[name]; !there {
			object[name] = want
		}
		if object[name] != want {
			d.Problem = fmt.Sprintf("%s is %v; on this page it has to be %s.", name, object[name], want)
			return nil, errEntered
		}
	}
	return d.checked(object)
}

// checked refuses to store what stands for a value that is not shown.
func (d *draft) checked(object map[string]any) (map[string]any, error) {
	var problems []form.Problem
	for _, path := range unmasked(d.base, object) {
		problems = append(problems, form.Problem{Field: path, Message: "There is no value to keep here. Enter one."})
	}
	if len(problems) == 0 {
		return object, nil
	}
	d.Problem = "A value is missing."
	d.place(problems)
	return nil, errEntered
}

// place puts problems at their fields, where there are such.
func (d *draft) place(problems []form.Problem) {
	if d.As == entersForm && d.Root != nil {
		problems = d.Root.Explain(problems)
	}
	d.Problems = append(d.Problems, problems...)
}

// refused says on the page why the API server refuses what was entered.
func (d *draft) refused(err error) {
	text, fields := asuser.Explain(err)
	d.Problem, d.Hint = text, problemOf(err).Hint
	var problems []form.Problem
	for _, each := range fields {
		problems = append(problems, form.Problem{Field: each.Field, Message: each.Message})
	}
	d.place(problems)
	if len(problems) > 0 {
		d.Problem = "The API server does not accept this " + d.Kind.Kind + "."
	}
}

// warn says that this will be refused where it is, for want of a right: another namespace
// may be entered.
func (d *draft) warn(lacking error) {
	p := problemOf(lacking)
	d.Problem, d.Commands = p.Text, p.Commands
	d.Hint = "Choose another namespace. Or a cluster admin can grant the right with:"
}

// turn goes on with the other way of entering, with what is entered so far. What
// cannot be read has to be mended first.
func (d *draft) turn(to string) {
	if to == d.As || to == entersForm && d.form == nil {
		return
	}
	object, err := d.object()
	if err != nil {
		return
	}
	d.lay(object)
	d.As, d.Root = to, nil
}

// show makes the fields, if that was not done yet.
func (d *draft) show() {
	if d.As != entersForm || d.Root != nil {
		return
	}
	root, err := d.form.Read(d.values)
	if err != nil {
		d.As, d.Problem = entersYAML, title(err.Error())+"."
		if d.before != nil {
			d.Text = form.PrintYAML(d.before)
		}
		return
	}
	d.Root = root
}
