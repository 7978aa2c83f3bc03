// Package object holds one Kubernetes object as the JSON bytes the API server
// sent, with the metadata that is asked for all the time parsed beside it.
//
// Here live parsing, splicing of single fields, field paths, digests, labels
// and the description of a served resource. Nothing here talks to a server or
// knows what an object is for. Every room above uses it.
package object

import (
	"encoding/json"
	"strconv"
	"unique"
)

// Object is one Kubernetes object. It is immutable: changing means making
// another (With). The zero value is no valid object; use Parse.
type Object struct {
	raw    []byte
	digest uint64
	intent uint64

	typeName   unique.Handle[typeName]
	version    uint64
	generation int64
	labels     Labels
	controller *Owner
	// names are namespace, name and uid, one after the other: there may be a
	// hundred thousand objects, and this takes half the room of three strings.
	names             string
	nameFrom, uidFrom uint32
	deleting          bool
}

// Owner is the controlling owner of an object.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// JSON is the whole object, compact, without metadata.managedFields. Read-only.
func (o *Object) JSON() []byte { return o.raw }

// APIVersion as in the object, such as "v1" or "apps/v1".
func (o *Object) APIVersion() string { return o.typeName.Value().apiVersion }

// Kind as in the object, such as "Deployment".
func (o *Object) Kind() string { return o.typeName.Value().kind }

// Namespace is empty for a cluster-scoped object.
func (o *Object) Namespace() string { return o.names[:o.nameFrom] }

// Name is metadata.name.
func (o *Object) Name() string { return o.names[o.nameFrom:o.uidFrom] }

// UID is metadata.uid; empty for an object that was never stored.
func (o *Object) UID() string { return o.names[o.uidFrom:] }

// Version is metadata.resourceVersion as the integer it is; 0 for an object
// that was never stored. Versions of one resource compare by age.
func (o *Object) Version() uint64 { return o.version }

// ResourceVersion is Version in the API's own form.
func (o *Object) ResourceVersion() string { return strconv.FormatUint(o.version, 10) }

// Generation is metadata.generation; 0 for kinds that have none.
func (o *Object) Generation() int64 { return o.generation }

// Labels are metadata.labels, sorted by key. Read-only.
func (o *Object) Labels() Labels { return o.labels }

// Controller is the owner with controller: true, or nil.
func (o *Object) Controller() *Owner { return o.controller }

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

// Deleting says that metadata.deletionTimestamp is set.
func (o *Object) Deleting() bool { return o.deleting }

// Digest is a hash of everything but metadata.resourceVersion, stable within
// this process only: two objects of one digest look the same to a hook.
func (o *Object) Digest() uint64 { return o.digest }

// Intent is a hash of what a user edits: labels, annotations and, by its
// generation, the spec. It does not move when only the status does.
func (o *Object) Intent() uint64 { return o.intent }

// Ref names the object for messages and logs.
func (o *Object) Ref() Ref { return Ref{Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()} }

// Size is the memory the object's bytes take.
func (o *Object) Size() int { return len(o.raw) }

// Ref names one object of a kind.
type Ref struct{ Kind, Namespace, Name string }

// String is "ConfigMap default/settings", or "Namespace kube-system".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}
