package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// UIDLabel is the label by which a generated selector finds its children.
const UIDLabel = "controller-uid"

// Child is one desired child, checked and completed.
type Child struct {
	Rule   Rule
	Object *object.Object
	// IgnoredNamespace is the path of a namespace that was ignored, since the kind has none;
	// empty for most.
	IgnoredNamespace string
}

// Planner is the parent and what its controller says of its children.
type Planner struct {
	Parent *object.Object
	// Namespaced says that the parent lives in a namespace.
	Namespaced bool
	Rules      Rules
	// Selector is what every child must match.
	Selector labels.Selector
	// GenerateSelector says that Selector is made from the parent's UID, and that
	// children are given the label they lack.
	GenerateSelector bool
	// LastApplied is the annotation that remembers what was applied.
	LastApplied string
	// OmitValues remembers which fields were applied, but not what they were set
	// to. Metacontroller's annotation has the values too.
	OmitValues bool
	// Manager is the field manager of server-side apply.
	Manager string
	// IgnoreNamespaces ignores the namespace of a cluster-scoped child, instead of
	// refusing the response.
	IgnoreNamespaces bool
	// Mark, if set, is how a decorator knows its attachments among all that the
	// parent owns. There is no selector then, and nothing is taken in.
	Mark Mark
}

// Mark is an annotation that attachments carry, and its value.
type Mark struct{ Key, Value string }

// ResponseError is something wrong in a reply, and where.
type ResponseError struct {
	Path    string
	Problem string
}

func (e *ResponseError) Error() string { return e.Path + ": " + e.Problem }

func invalid(path, format string, args ...any) *ResponseError {
	return &ResponseError{Path: path, Problem: fmt.Sprintf(format, args...)}
}

// Desired checks the children of a reply, all of them, before anything is done
// about one. It sets what a hook may leave out: the namespace, and the label of
// a generated selector. The error is a *ResponseError.
func (f *Planner) Desired(response []json.RawMessage) ([]Child, error) {
	children := make([]Child, 0, len(response))
	seen := make(map[object.Ref]int, len(response))
	for i, data := range response {
		path := f.childrenField() + "[" + strconv.Itoa(i) + "]"
		child, err := f.child(path, data)
		if err != nil {
			return nil, err
		}
		ref := child.Object.Ref()
		ref.Kind += "." + child.Rule.Resource.Group
		if first, twice := seen[ref]; twice {
			return nil, invalid(path, "%s is already %s[%d]; a name can be given once", child.Object.Ref(), f.childrenField(), first)
		}
		seen[ref] = i
		children = append(children, child)
	}
	return children, nil
}

// childrenField is what the field of the reply is called.
func (f *Planner) childrenField() string {
	if f.isDecorator() {
		return "attachments"
	}
	return "children"
}

// rulesField is where the controller says which kinds there may be.
func (f *Planner) rulesField() string {
	if f.isDecorator() {
		return "attachments"
	}
	return "childResources"
}

func (f *Planner) child(path string, data json.RawMessage) (Child, error) {
	o, err := parseChild(path, data)
	if err != nil {
		return Child{}, err
	}
	rule, declared := f.Rules.For(o.GroupKind())
	if !declared {
		return Child{}, invalid(path+".kind", "%s of %s is not among the controller's %s", o.Kind(), o.APIVersion(), f.rulesField())
	}
	if o.APIVersion() != rule.Resource.APIVersion() {
		return Child{}, invalid(path+".apiVersion", "is %s, but the controller's %s say %s", o.APIVersion(), f.rulesField(), rule.Resource.APIVersion())
	}
	if err := f.validate(path, o); err != nil {
		return Child{}, err
	}
	ignoredNamespace := ""
	if f.IgnoreNamespaces && !rule.Resource.Namespaced && o.Namespace() != "" {
		ignoredNamespace = path + ".metadata.namespace"
		if o, err = o.With(nil, "metadata", "namespace"); err != nil {
			return Child{}, invalid(ignoredNamespace, "%v", err)
		}
	}
	o, err = f.complete(path, o, rule.Resource)
	return Child{Rule: rule, Object: o, IgnoredNamespace: ignoredNamespace}, err
}

// complete sets what the hook may leave out.
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

// parseChild reads a child. Where a hook may give a field twice, the last one counts.
func parseChild(path string, data json.RawMessage) (*object.Object, error) {
	if !object.HasUniqueNames(data) {
		if fields, err := tree(data); err == nil {
			return objectOf(fields)
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

// validate checks what the child is addressed by, since that becomes part of a URL,
// and what is written into.
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
		return invalid(path+".metadata.ownerReferences", "name %s %s as the controller, but that is the parent", owner.Kind, owner.Name)
	}
	return nil
}

// setNamespace settles the child's namespace.
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
	}
	return nil
}

// setLabel settles the labels, or the mark, by which the child is found again.
func (f *Planner) setLabel(path string, o *object.Object, edits *[]object.Edit) error {
	if f.isDecorator() {
		return addEdit(edits, f.Mark.Value, "metadata", "annotations", f.Mark.Key)
	}
	if f.GenerateSelector && !o.Labels().Has(UIDLabel) {
		return addEdit(edits, f.Parent.UID(), "metadata", "labels", UIDLabel)
	}
	if !f.Selector.Matches(o.Labels()) {
		return invalid(path+".metadata.labels", "do not match the parent's selector %q, so the child would not be found again", f.Selector)
	}
	return nil
}

// addEdit adds an edit that sets a text.
func addEdit(edits *[]object.Edit, value string, path ...string) error {
	text, err := json.Marshal(value)
	*edits = append(*edits, object.Edit{Value: text, Path: path})
	return err
}
