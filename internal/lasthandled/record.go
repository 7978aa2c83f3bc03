// Package lasthandled is the record on an object of what each handler has handled.
//
// It has the schema of the record, where it is stored, how older forms are read, and what of it can be compared. It
// decides nothing: the controllers of handlers do.
package lasthandled

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// StatusField is the field of the status that has the records by controller name, if the schema of the kind has the
// field. A status request cannot change annotations, nor the other way round, so a record in the status saves one of
// two requests.
const StatusField = "setpointHandledBy"

// AnnotationPrefix begins the annotations with records, NamePrefix their names after the domain.
const (
	AnnotationPrefix = "setpoint.dev/" + NamePrefix
	NamePrefix       = "handled-by-"
)

// Record has the entries of the handlers by name.
type Record map[string]Entry

// Object is the name of the entry about the object itself, with the digest of its UID. A copy of an object copies its
// annotations, but its handlers must treat it as new.
const Object = "~"

// read reads a record from a path in the object. An invalid record, or that of another object, is empty.
func read(o *object.Object, path []string) Record {
	var text string
	field := o.Field(path...)
	if field == nil || json.Unmarshal(field, &text) != nil {
		return Record{}
	}
	var recorded Record
	if json.Unmarshal([]byte(text), &recorded) != nil || recorded[Object].Digest != Digest(o.UID()) {
		return Record{}
	}
	return recorded
}

// String returns the record as it is stored; empty for none.
func (r Record) String() string {
	if len(r) == 0 {
		return ""
	}
	return string(toJSON(r))
}

// TakeOver adds the entries of a former record. Revisions of its states have other names, so that they are not found
// again.
func (r Record) TakeOver(former Record) {
	for name, e := range former {
		if _, own := r[name]; !own {
			e.HasRevision = false
			r[name] = e
		}
	}
}

// Rename gives the entry of a handler's former name to the handler, unless it has one. The next write of the record
// stores the new name.
func (r Record) Rename(former, name string) {
	e, recorded := r[former]
	if _, renamed := r[name]; recorded && !renamed {
		r[name] = e
	}
	delete(r, former)
}

// Location is where the record of a controller is: in an annotation or, by the key, in the status.
type Location struct{ Annotation, StatusKey string }

// InStatus and InAnnotation return the path of the record in an object.
func (l Location) InStatus() []string     { return []string{"status", StatusField, l.StatusKey} }
func (l Location) InAnnotation() []string { return []string{"metadata", "annotations", l.Annotation} }

// Read reads the record of an object from the status, else from the annotation, which an earlier release may have
// written.
func (l Location) Read(o *object.Object) Record {
	if state := l.ReadStatus(o); len(state) > 0 {
		return state
	}
	return read(o, l.InAnnotation())
}

// ReadStatus reads the record in the status.
func (l Location) ReadStatus(o *object.Object) Record {
	if l.StatusKey == "" {
		return Record{}
	}
	return read(o, l.InStatus())
}

// Removal returns patches of the annotations and of the records in the status that remove those of former controllers;
// nil for none.
func Removal(o *object.Object, former []Location) (annotations, status map[string]any) {
	for _, l := range former {
		// A copy of another object's record is left: what copied it would do so again.
		if len(read(o, l.InAnnotation())) > 0 {
			annotations = object.CombinePatches(annotations, map[string]any{l.Annotation: nil})
		}
		if l.StatusKey != "" && o.Field(l.InStatus()...) != nil {
			status = object.CombinePatches(status, map[string]any{l.StatusKey: nil})
		}
	}
	return annotations, status
}

// IsPath reports whether the path of a change in an object is that of a record.
func IsPath(path string) bool {
	return strings.HasPrefix(path, `metadata.annotations["`+AnnotationPrefix) || strings.HasPrefix(path, "status."+StatusField)
}

// HideDigests replaces the digests in the records of a decoded object, to compare it with one of another cluster: they
// are also of UIDs.
func HideDigests(fields map[string]any) {
	metadata, _ := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for name, value := range annotations {
		if strings.HasPrefix(name, AnnotationPrefix) {
			annotations[name] = withoutDigests(value)
		}
	}
	status, _ := fields["status"].(map[string]any)
	records, _ := status[StatusField].(map[string]any)
	for name, value := range records {
		records[name] = withoutDigests(value)
	}
}

// withoutDigests returns a record without its digests; the same value if it is none.
func withoutDigests(value any) any {
	text, _ := value.(string)
	var recorded Record
	if json.Unmarshal([]byte(text), &recorded) != nil {
		return value
	}
	for name, e := range recorded {
		for _, digest := range []*string{&e.Digest, &e.OwnedDigest} {
			if *digest != "" {
				*digest = "a digest"
			}
		}
		recorded[name] = e
	}
	return recorded.String()
}
