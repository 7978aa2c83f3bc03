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
	// Stray is the path of a namespace that was ignored, since the kind has none;
	// empty for most.
	Stray string
}

// Family is the parent and what its controller says of its children.
type Family struct {
	Parent *object.Object
	// Namespaced says that the parent lives in a namespace.
	Namespaced bool
	Rules      Rules
	// Selector is what every child must match.
	Selector labels.Selector
	// Generated says that Selector is made from the parent's UID, and that
	// children are given the label they lack.
	Generated bool
	// LastApplied is the annotation that remembers what was applied.
	LastApplied string
	// Outline remembers which fields were applied, but not what they were set
	// to. Metacontroller's annotation has the values too.
	Outline bool
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

// ReplyError is something wrong in a reply, and where.
type ReplyError struct {
	Path    string
	Problem string
}

func (e *ReplyError) Error() string { return e.Path + ": " + e.Problem }

func wrong(path, format string, args ...any) *ReplyError {
	return &ReplyError{Path: path, Problem: fmt.Sprintf(format, args...)}
}

// Desired checks the children of a reply, all of them, before anything is done
// about one. It sets what a hook may leave out: the namespace, and the label of
// a generated selector. The error is a *ReplyError.
func (f *Family) Desired(reply []json.RawMessage) ([]Child, error) {
	children := make([]Child, 0, len(reply))
	seen := make(map[object.Ref]int, len(reply))
	for i, data := range reply {
		path := f.listed() + "[" + strconv.Itoa(i) + "]"
		child, err := f.child(path, data)
		if err != nil {
			return nil, err
		}
		ref := child.Object.Ref()
		ref.Kind += "." + child.Rule.Resource.Group
		if first, twice := seen[ref]; twice {
			return nil, wrong(path, "%s is already %s[%d]; a name can be given once", child.Object.Ref(), f.listed(), first)
		}
		seen[ref] = i
		children = append(children, child)
	}
	return children, nil
}

// listed is what the field of the reply is called.
func (f *Family) listed() string {
	if f.decorates() {
		return "attachments"
	}
	return "children"
}

// declared is where the controller says which kinds there may be.
func (f *Family) declared() string {
	if f.decorates() {
		return "attachments"
	}
	return "childResources"
}

func (f *Family) child(path string, data json.RawMessage) (Child, error) {
	o, err := parsed(path, data)
	if err != nil {
		return Child{}, err
	}
	rule, declared := f.Rules.For(o.GroupKind())
	if !declared {
		return Child{}, wrong(path+".kind", "%s of %s is not among the controller's %s", o.Kind(), o.APIVersion(), f.declared())
	}
	if o.APIVersion() != rule.Resource.APIVersion() {
		return Child{}, wrong(path+".apiVersion", "is %s, but the controller's %s say %s", o.APIVersion(), f.declared(), rule.Resource.APIVersion())
	}
	if err := f.sound(path, o); err != nil {
		return Child{}, err
	}
	stray := ""
	if f.IgnoreNamespaces && !rule.Resource.Namespaced && o.Namespace() != "" {
		stray = path + ".metadata.namespace"
		if o, err = o.With(nil, "metadata", "namespace"); err != nil {
			return Child{}, wrong(stray, "%v", err)
		}
	}
	o, err = f.completed(path, o, rule.Resource)
	return Child{Rule: rule, Object: o, Stray: stray}, err
}

// completed sets what the hook may leave out.
func (f *Family) completed(path string, o *object.Object, resource object.Resource) (*object.Object, error) {
	var edits []object.Edit
	if err := f.place(path, o, resource, &edits); err != nil {
		return nil, err
	}
	if err := f.label(path, o, &edits); err != nil {
		return nil, err
	}
	if len(edits) == 0 {
		return o, nil
	}
	changed, err := o.Edited(edits...)
	if err != nil {
		return nil, wrong(path, "%v", err)
	}
	return changed, nil
}

// parsed reads a child. Where a hook may give a field twice, the last one counts.
func parsed(path string, data json.RawMessage) (*object.Object, error) {
	if !object.NamesOnce(data) {
		if fields, err := tree(data); err == nil {
			return objectOf(fields)
		}
	}
	o, err := object.Parse(data)
	if fault, at := errors.AsType[*object.FieldError](err); at && fault.Path != "" {
		return nil, wrong(path+"."+fault.Path, "%v", fault.Err)
	}
	if err != nil {
		return nil, wrong(path, "%v", err)
	}
	return o, nil
}

// sound checks what the child is addressed by, since that becomes part of a URL,
// and what is written into.
func (f *Family) sound(path string, o *object.Object) error {
	if o.Name() == "" {
		return wrong(path+".metadata.name", "required")
	}
	if problems := content.IsPathSegmentName(o.Name()); len(problems) > 0 {
		return wrong(path+".metadata.name", "is %q; a name %s", o.Name(), problems[0])
	}
	if problems := content.IsPathSegmentName(o.Namespace()); len(problems) > 0 {
		return wrong(path+".metadata.namespace", "is %q; a namespace %s", o.Namespace(), problems[0])
	}
	if annotations := o.Field("metadata", "annotations"); annotations != nil && annotations[0] != '{' {
		return wrong(path+".metadata.annotations", "must be an object")
	}
	if owner, owned := o.Controller(); owned && owner.UID != f.Parent.UID() {
		return wrong(path+".metadata.ownerReferences", "name %s %s as the controller, but that is the parent", owner.Kind, owner.Name)
	}
	return nil
}

// place settles the child's namespace.
func (f *Family) place(path string, o *object.Object, resource object.Resource, edits *[]object.Edit) error {
	at := path + ".metadata.namespace"
	switch {
	case !resource.Namespaced && f.Namespaced:
		return wrong(path, "%s is cluster-scoped and cannot be the child of a namespaced parent", resource.Kind)
	case !resource.Namespaced && o.Namespace() != "":
		return wrong(at, "%s is cluster-scoped and has no namespace", resource.Kind)
	case !resource.Namespaced:
		return nil
	case f.Namespaced && o.Namespace() == "":
		return set(edits, f.Parent.Namespace(), "metadata", "namespace")
	case f.Namespaced && o.Namespace() != f.Parent.Namespace():
		return wrong(at, "is %q, but the children of a namespaced parent live in its namespace %q", o.Namespace(), f.Parent.Namespace())
	case o.Namespace() == "":
		return wrong(at, "required: %s is namespaced and the parent is not", resource.Kind)
	}
	return nil
}

// label settles the labels, or the mark, by which the child is found again.
func (f *Family) label(path string, o *object.Object, edits *[]object.Edit) error {
	if f.decorates() {
		return set(edits, f.Mark.Value, "metadata", "annotations", f.Mark.Key)
	}
	if f.Generated && !o.Labels().Has(UIDLabel) {
		return set(edits, f.Parent.UID(), "metadata", "labels", UIDLabel)
	}
	if !f.Selector.Matches(o.Labels()) {
		return wrong(path+".metadata.labels", "do not match the parent's selector %q, so the child would not be found again", f.Selector)
	}
	return nil
}

// set adds an edit that sets a text.
func set(edits *[]object.Edit, value string, path ...string) error {
	text, err := json.Marshal(value)
	*edits = append(*edits, object.Edit{Value: text, Path: path})
	return err
}
