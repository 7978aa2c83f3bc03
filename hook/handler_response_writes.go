package hook

import "k8s.io/apimachinery/pkg/labels"

// patch reads a merge patch of the object, nil for null. It rejects identity fields, the
// status, and metadata that other clients own.
func (r *handlerResponseReader) patch() error {
	r.out.Patch = nil
	if r.null() {
		return r.skip()
	}
	start, err := r.openObject(func(name []byte) error {
		switch string(name) {
		case "apiVersion", "kind":
			return r.errorAt("", "cannot be patched: it identifies the object")
		case "status":
			return r.errorAt("", "cannot be patched here; use the field status of the response")
		case "metadata":
			return r.members(r.metadataPatch)
		}
		return r.skip()
	})
	if err == nil {
		r.out.Patch = r.since(start)
	}
	return err
}

func (r *handlerResponseReader) metadataPatch(name []byte) error {
	rules := labelRules
	switch string(name) {
	case "labels":
	case "annotations":
		rules = annotationRules
	default:
		return r.errorAt("", "cannot be patched: only labels and annotations of the metadata can")
	}
	if r.null() {
		return r.errorAt("", "must be an object, is null; to remove a key, set the key to null")
	}
	var checked map[string]*string
	return r.keys(&checked, rules)()
}

// applied reads one object to apply: the bare object, or {"object": …, "unowned": …}. An
// object with a top-level field object or unowned needs the second form.
func (r *handlerResponseReader) applied() (AppliedObject, error) {
	var a AppliedObject
	var id identity
	var wrapped bool
	sibling := ""
	start, err := r.openObject(func(name []byte) (err error) {
		switch string(name) {
		case "object":
			wrapped = true
			a.Object, err = r.object()
			return err
		case "unowned":
			wrapped = true
			return r.boolean(&a.Unowned)()
		}
		if sibling == "" {
			sibling = string(name)
		}
		return r.identityMember(name, &id)
	})
	switch missing := id.missing(); {
	case err != nil:
		return a, err
	case wrapped:
		return a, r.checkWrapped(a, sibling)
	case missing != "":
		return a, r.errorAt(missing, "required")
	}
	a.Object = r.since(start)
	return a, nil
}

func (r *handlerResponseReader) checkWrapped(a AppliedObject, sibling string) error {
	switch {
	case a.Object == nil:
		return r.errorAt(".object", "required")
	case sibling != "" && !r.decoding.loose():
		return r.errorAt(fieldPath(sibling), "unknown field next to object and unowned; fields of the object belong in the field object")
	}
	return nil
}

func (r *handlerResponseReader) deletion() (Deletion, error) {
	var d Deletion
	err := r.fields(
		field{"apiVersion", r.text(&d.APIVersion)},
		field{"kind", r.text(&d.Kind)},
		field{"namespace", r.text(&d.Namespace)},
		field{"name", r.text(&d.Name)},
		field{"selector", r.text(&d.Selector)},
		field{"evict", r.boolean(&d.Evict)},
	)
	if err != nil {
		return d, err
	}
	return d, r.checkDeletion(d)
}

func (r *handlerResponseReader) checkDeletion(d Deletion) error {
	switch err := r.require(given{".apiVersion", d.APIVersion}, given{".kind", d.Kind}); {
	case err != nil:
		return err
	case d.Name == "" && d.Selector == "":
		return r.errorAt("", "name or selector required")
	case d.Name != "" && d.Selector != "":
		return r.errorAt(".selector", "not allowed with a name")
	case d.Evict && (d.APIVersion != "v1" || d.Kind != "Pod"):
		return r.errorAt(".evict", "only pods can be evicted")
	case d.Selector == "":
		return nil
	}
	selector, err := labels.Parse(d.Selector)
	if err != nil {
		return r.errorAt(".selector", `%q: must be a label selector, such as "app=web,tier!=cache"`, shorten(d.Selector))
	}
	if selector.Empty() {
		return r.errorAt(".selector", "selects everything; select what to delete")
	}
	return nil
}
