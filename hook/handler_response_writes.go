package hook

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/labels"
)

// patch reads a merge patch of the object, nil for null. It rejects identity fields, the
// status, and metadata that other clients own.
func (r *handlerResponseReader) patch() (json.RawMessage, error) {
	if r.null() {
		return nil, r.skip()
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
	if err != nil {
		return nil, err
	}
	end := r.dec.InputOffset()
	return json.RawMessage(r.data[start:end:end]), nil
}

func (r *handlerResponseReader) metadataPatch(name []byte) (err error) {
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
	_, err = r.stringMap(rules)
	return err
}

// applied reads one object to apply: the bare object, or {"object": …, "unowned": …}. An
// object with a top-level field object or unowned needs the second form.
func (r *handlerResponseReader) applied() error {
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
			return r.boolean(&a.Unowned)
		}
		if sibling == "" {
			sibling = string(name)
		}
		return r.identityMember(name, &id)
	})
	if err != nil {
		return err
	}
	if wrapped {
		err = r.checkWrapped(a, sibling)
	} else if missing := id.missing(); missing != "" {
		err = r.errorAt(missing, "required")
	} else {
		end := r.dec.InputOffset()
		a.Object = json.RawMessage(r.data[start:end:end])
	}
	r.out.Apply = append(r.out.Apply, a)
	return err
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

func (r *handlerResponseReader) deletion() error {
	var d Deletion
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.optionalString(&d.APIVersion)
		case "kind":
			return r.optionalString(&d.Kind)
		case "namespace":
			return r.optionalString(&d.Namespace)
		case "name":
			return r.optionalString(&d.Name)
		case "selector":
			return r.optionalString(&d.Selector)
		case "evict":
			return r.boolean(&d.Evict)
		}
		return r.rejectUnknown(name, []string{"apiVersion", "kind", "namespace", "name", "selector", "evict"})
	})
	if err != nil {
		return err
	}
	r.out.Delete = append(r.out.Delete, d)
	return r.checkDeletion(d)
}

func (r *handlerResponseReader) checkDeletion(d Deletion) error {
	switch {
	case d.APIVersion == "":
		return r.errorAt(".apiVersion", "required")
	case d.Kind == "":
		return r.errorAt(".kind", "required")
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
