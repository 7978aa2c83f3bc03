package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// UIDLabel is the label that a generated selector selects.
const UIDLabel = "controller-uid"

// Child is a validated and completed desired child.
type Child struct {
	Rule   Rule
	Object *object.Object
}

// Ignored is a part of a response that a lenient planner ignores.
type Ignored struct {
	Path string
	// Problem says why, and what to do.
	Problem string
	// Undeclared is the kind of a child that the controller does not declare; empty for a namespace.
	Undeclared object.GroupKind
}

// Planner plans the children of one parent by the rules of its controller.
type Planner struct {
	Parent *object.Object
	// Namespaced means that the parent has a namespace.
	Namespaced bool
	// Namespaces limit the children of a cluster-scoped parent; empty for all.
	Namespaces []string
	Rules      Rules
	// Selector has to match every child.
	Selector labels.Selector
	// GenerateSelector means that Selector selects the parent's UID. Children without the label get it.
	GenerateSelector bool
	// LastApplied is the annotation with the last applied configuration.
	LastApplied string
	// OmitValues stores only the names of fields in LastApplied. Metacontroller's annotation has the values too.
	OmitValues bool
	// Manager is the field manager of server-side apply.
	Manager string
	// Lenient ignores the namespace of a cluster-scoped child and children of kinds that the controller does
	// not declare, instead of rejecting the response.
	Lenient bool
	// Mark, if set, marks the attachments of a decorator. A decorator has no selector and adopts nothing.
	Mark Mark
	// Secrets are the values that no problem may have in another form.
	Secrets *redact.Values
}

func (f *Planner) isDecorator() bool { return f.Mark != Mark{} }

// ResponseError is an invalid field of a response.
type ResponseError struct {
	Path    string
	Problem string
}

func (e *ResponseError) Error() string { return e.Path + ": " + e.Problem }

// Malformed makes an error of a plan one of the hook, whose response caused it.
func Malformed(err error) error {
	if response, ok := errors.AsType[*ResponseError](err); ok {
		return &hook.MalformedError{Path: response.Path, Err: errors.New(response.Problem)}
	}
	return &hook.MalformedError{Err: err}
}

func invalid(path, format string, args ...any) *ResponseError {
	return &ResponseError{Path: path, Problem: fmt.Sprintf(format, args...)}
}

// Desired validates all children of a response and completes them: it sets the namespace and the
// label of a generated selector. It returns what it ignores as well, each undeclared kind once. The error is a
// *ResponseError.
func (f *Planner) Desired(response []json.RawMessage) (children []Child, ignored []Ignored, err error) {
	children = make([]Child, 0, len(response))
	seen := make(map[object.Ref]int, len(response))
	for i, data := range response {
		path := f.ChildrenField() + "[" + strconv.Itoa(i) + "]"
		child, part, err := f.child(path, data)
		if err != nil {
			return nil, nil, err
		}
		isKnown := part.Undeclared != (object.GroupKind{}) &&
			slices.ContainsFunc(ignored, func(other Ignored) bool { return other.Undeclared == part.Undeclared })
		if part != (Ignored{}) && !isKnown {
			ignored = append(ignored, part)
		}
		if child.Object == nil {
			continue
		}
		ref := child.Object.Ref().Identity()
		if first, twice := seen[ref]; twice {
			return nil, nil, invalid(path, "%s is already %s[%d]; a name can be given once", child.Object.Ref(), f.ChildrenField(), first)
		}
		seen[ref] = i
		children = append(children, child)
	}
	return children, ignored, nil
}

// ChildrenField returns the name of the field with the children in a response.
func (f *Planner) ChildrenField() string {
	if f.isDecorator() {
		return "attachments"
	}
	return "children"
}

// rulesField returns the name of the field with the rules in the controller's spec.
func (f *Planner) rulesField() string {
	if f.isDecorator() {
		return "attachments"
	}
	return "childResources"
}

// child returns no object if the planner ignores the child.
func (f *Planner) child(path string, data json.RawMessage) (child Child, ignored Ignored, err error) {
	o, err := parseChild(path, data)
	if err != nil {
		return child, ignored, err
	}
	rule, declared := f.Rules.For(o.GroupKind())
	switch {
	case !declared && f.Lenient:
		return child, f.undeclared(path, o), nil
	case !declared:
		return child, ignored, invalid(path+".kind", "%s", f.undeclared(path, o).Problem)
	case o.APIVersion() != rule.Resource.APIVersion():
		return child, ignored, invalid(path+".apiVersion", "is %s, but the controller's %s say %s",
			o.APIVersion(), f.rulesField(), rule.Resource.APIVersion())
	}
	if err := f.validate(path, o); err != nil {
		return child, ignored, err
	}
	if f.Lenient && !rule.Resource.Namespaced && o.Namespace() != "" {
		ignored = Ignored{Path: path + ".metadata.namespace", Problem: rule.Resource.Kind + " is cluster-scoped and has no namespace"}
		if o, err = o.With(nil, "metadata", "namespace"); err != nil {
			return child, ignored, invalid(ignored.Path, "%v", err)
		}
	}
	o, err = f.complete(path, o, rule.Resource)
	return Child{Rule: rule, Object: o}, ignored, err
}

// undeclared describes a child of an undeclared kind, with the line that declares it. The plural of its kind is a
// guess in small letters, so that a value of a Secret in the kind is masked before.
func (f *Planner) undeclared(path string, o *object.Object) Ignored {
	version, _ := schema.ParseGroupVersion(o.APIVersion())
	plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(f.Secrets.Text(o.Kind())))
	return Ignored{Path: path + ".kind", Undeclared: o.GroupKind(), Problem: fmt.Sprintf(
		"%s of %s is not among the controller's %s; to apply it, add to spec.%[3]s: - {apiVersion: %[2]s, resource: %[4]s}",
		o.Kind(), o.APIVersion(), f.rulesField(), plural.Resource)}
}

// complete sets what a hook may leave out.
func (f *Planner) complete(path string, o *object.Object, resource object.Resource) (*object.Object, error) {
	var edits []object.Edit
	if err := f.setNamespace(path, o, resource, &edits); err != nil {
		return nil, err
	}
	if err := f.setLabel(path, o, &edits); err != nil {
		return nil, err
	}
	if len(edits) == 0 {
		return o, nil
	}
	changed, err := o.Edited(edits...)
	if err != nil {
		return nil, invalid(path, "%v", err)
	}
	return changed, nil
}

// parseChild parses a child, in which whole numbers become integers. If a field is duplicated, the last one counts.
func parseChild(path string, data json.RawMessage) (*object.Object, error) {
	data = object.WholeNumbers(data)
	if !object.HasUniqueNames(data) {
		if fields, err := object.Decode(data); err == nil {
			return object.Encode(fields)
		}
	}
	o, err := object.Parse(data)
	if fault, at := errors.AsType[*object.FieldError](err); at && fault.Path != "" {
		return nil, invalid(path+"."+fault.Path, "%v", fault.Err)
	}
	if err != nil {
		return nil, invalid(path, "%v", err)
	}
	return o, nil
}

// validate checks the fields that become part of a URL, and those that Setpoint writes into.
func (f *Planner) validate(path string, o *object.Object) error {
	if o.Name() == "" {
		return invalid(path+".metadata.name", "required")
	}
	if problems := content.IsPathSegmentName(o.Name()); len(problems) > 0 {
		return invalid(path+".metadata.name", "is %q; a name %s", o.Name(), problems[0])
	}
	if problems := content.IsPathSegmentName(o.Namespace()); len(problems) > 0 {
		return invalid(path+".metadata.namespace", "is %q; a namespace %s", o.Namespace(), problems[0])
	}
	if annotations := o.Field("metadata", "annotations"); annotations != nil && annotations[0] != '{' {
		return invalid(path+".metadata.annotations", "must be an object")
	}
	if owner, owned := o.Controller(); owned && owner.UID != f.Parent.UID() {
		return invalid(path+".metadata.ownerReferences", "name %s %s as the controller, which must be the parent", owner.Kind, owner.Name)
	}
	return nil
}

func (f *Planner) setNamespace(path string, o *object.Object, resource object.Resource, edits *[]object.Edit) error {
	at := path + ".metadata.namespace"
	switch {
	case !resource.Namespaced && f.Namespaced:
		return invalid(path, "%s is cluster-scoped and cannot be the child of a namespaced parent", resource.Kind)
	case !resource.Namespaced && o.Namespace() != "":
		return invalid(at, "%s is cluster-scoped and has no namespace", resource.Kind)
	case !resource.Namespaced:
		return nil
	case f.Namespaced && o.Namespace() == "":
		return addEdit(edits, f.Parent.Namespace(), "metadata", "namespace")
	case f.Namespaced && o.Namespace() != f.Parent.Namespace():
		return invalid(at, "is %q, but the children of a namespaced parent live in its namespace %q", o.Namespace(), f.Parent.Namespace())
	case o.Namespace() == "":
		return invalid(at, "required: %s is namespaced and the parent is not", resource.Kind)
	case !f.Namespaced && len(f.Namespaces) > 0 && !slices.Contains(f.Namespaces, o.Namespace()):
		return invalid(at, "is %q, which is not one of the controller's namespaces, %s", o.Namespace(), strings.Join(f.Namespaces, ", "))
	}
	return nil
}

// setLabel checks or sets the label or the mark that selects the child.
func (f *Planner) setLabel(path string, o *object.Object, edits *[]object.Edit) error {
	if f.isDecorator() {
		return addEdit(edits, f.Mark.Value, "metadata", "annotations", f.Mark.Key)
	}
	if f.GenerateSelector && !o.Labels().Has(UIDLabel) {
		return addEdit(edits, f.Parent.UID(), "metadata", "labels", UIDLabel)
	}
	if !f.Selector.Matches(o.Labels()) {
		return invalid(path+".metadata.labels", "do not match the parent's selector %q; the controller could not find the child",
			f.Selector)
	}
	return nil
}

// addEdit adds an edit that sets a string.
func addEdit(edits *[]object.Edit, value string, path ...string) error {
	text, err := json.Marshal(value)
	*edits = append(*edits, object.Edit{Value: text, Path: path})
	return err
}
