// Package object holds one Kubernetes object as the JSON bytes the API server
// sent, with the metadata that is asked for all the time parsed beside it.
//
// Here live parsing, splicing of single fields, field paths, digests, labels
// and the description of a served resource. Nothing here talks to a server or
// knows what an object is for. Every room above uses it.
package object

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unique"
	"unsafe"
)

// Object is one Kubernetes object. It is immutable: changing means making
// another (With). The zero value is no valid object; use Parse.
//
// There may be a hundred thousand objects, so this is small: 128 bytes. What is
// asked for now and then is read in the JSON, where parsing found it.
type Object struct {
	// raw is the JSON. Between its length and its capacity stand the texts of
	// which the JSON has only an escaped form, and managedFields if they are kept.
	raw    []byte
	digest uint64
	intent uint64

	typeName   unique.Handle[typeName]
	version    uint64
	generation int64
	// names are namespace and name, one after the other, in memory of their own:
	// they outlive the object as keys of this and that, and must not keep all of
	// it.
	names    string
	owner    ownerRanges
	uid      textRange
	labels   textRange
	nameFrom uint32
	deleted  bool
	managed  bool
}

// textRange is where a text stands in raw, up to its capacity.
type textRange struct{ from, to uint32 }

type ownerRanges struct {
	typeName  unique.Handle[typeName]
	name, uid textRange
}

// Owner is the controlling owner of an object. Its name and UID are views of the
// object: whoever keeps them longer keeps all of it.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// JSON is the whole object, compact, without metadata.managedFields: see Whole. Read-only.
func (o *Object) JSON() []byte { return slices.Clip(o.raw) }

// APIVersion as in the object, such as "v1" or "apps/v1".
func (o *Object) APIVersion() string { return o.typeName.Value().apiVersion }

// Kind as in the object, such as "Deployment".
func (o *Object) Kind() string { return o.typeName.Value().kind }

// Namespace is empty for a cluster-scoped object.
func (o *Object) Namespace() string { return o.names[:o.nameFrom] }

// Name is metadata.name.
func (o *Object) Name() string { return o.names[o.nameFrom:] }

// UID is metadata.uid; empty for an object that was never stored. It is a view of
// the object: whoever keeps it longer keeps all of it.
func (o *Object) UID() string { return o.textAt(o.uid) }

// Version is metadata.resourceVersion as the integer it is; 0 for an object
// that was never stored. Versions of one resource compare by age.
func (o *Object) Version() uint64 { return o.version }

// ResourceVersion is Version in the API's own form.
func (o *Object) ResourceVersion() string { return strconv.FormatUint(o.version, 10) }

// Generation is metadata.generation; 0 for kinds that have none.
func (o *Object) Generation() int64 { return o.generation }

// Labels are metadata.labels.
func (o *Object) Labels() Labels { return Labels{o.textAt(o.labels)} }

// Controller is the owner with controller: true, and whether there is one.
func (o *Object) Controller() (owner Owner, owned bool) {
	if o.owner == (ownerRanges{}) {
		return Owner{}, false
	}
	kind := o.owner.typeName.Value()
	return Owner{APIVersion: kind.apiVersion, Kind: kind.kind, Name: o.textAt(o.owner.name), UID: o.textAt(o.owner.uid)}, true
}

// ControlledBy says whether the controlling owner has the UID.
func (o *Object) ControlledBy(uid string) bool {
	return o.owner != (ownerRanges{}) && o.textAt(o.owner.uid) == uid
}

// textAt is the text that stands at a place, as a view.
func (o *Object) textAt(p textRange) string {
	if p.from == p.to {
		return ""
	}
	return unsafe.String(&o.raw[:cap(o.raw)][p.from], p.to-p.from) //nolint:gosec // The bytes never change, so a string may share them.
}

// Finalizers are metadata.finalizers. Few objects have any and few are asked, so
// they are read anew each time.
func (o *Object) Finalizers() []string {
	var names []string
	if field := o.Field("metadata", "finalizers"); field != nil {
		// Parse has checked that they are strings.
		_ = json.Unmarshal(field, &names)
	}
	return names
}

// HasFinalizer reports whether the object has a finalizer.
func (o *Object) HasFinalizer(name string) bool {
	return name != "" && bytes.Contains(o.raw, []byte(name)) && slices.Contains(o.Finalizers(), name)
}

// Deleting says that metadata.deletionTimestamp is set.
func (o *Object) Deleting() bool { return o.deleted }

// Digest is a hash of everything but metadata.resourceVersion, stable within
// this process only: two objects of one digest look the same to a hook.
func (o *Object) Digest() uint64 { return o.digest }

// IntentDigest is a hash of what a user edits: labels, annotations and, by its
// generation, the spec. It does not move when only the status does.
func (o *Object) IntentDigest() uint64 { return o.intent }

// Ref names the object for messages and logs.
func (o *Object) Ref() Ref { return Ref{Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()} }

// Size is the memory the object's bytes take.
func (o *Object) Size() int { return cap(o.raw) }

// Ref names one object of a kind.
type Ref struct{ Kind, Namespace, Name string }

// String is "ConfigMap default/settings", or "Namespace kube-system".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}
