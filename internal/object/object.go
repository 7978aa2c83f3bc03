// Package object holds a Kubernetes object as the JSON bytes that the API server sent, with
// frequently used metadata parsed beside it.
//
// It contains parsing, edits of single fields, references, field paths, digests, labels and the
// description of a served resource. It sends no requests and knows nothing of controllers.
package object

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"
	"unsafe"
)

// Object is an immutable Kubernetes object; With returns a changed copy. The zero value is invalid: use Parse.
//
// There may be a hundred thousand objects, so this is small: 128 bytes. Rarely used metadata is read from the JSON.
type Object struct {
	// raw is the JSON. Between its length and its capacity are texts that the JSON has only in
	// escaped form, and managedFields if they are kept.
	raw    []byte
	digest uint64
	intent uint64

	typeName   unique.Handle[typeName]
	version    uint64
	generation int64
	// names are namespace and name, in memory of their own: as map keys they outlive the
	// object and must not keep its bytes.
	names    string
	owner    ownerRanges
	uid      textRange
	labels   textRange
	nameFrom uint32
	deleted  bool
	managed  bool
}

// textRange is the range of a text in raw, up to its capacity.
type textRange struct{ from, to uint32 }

type ownerRanges struct {
	typeName  unique.Handle[typeName]
	name, uid textRange
}

// Owner is the controlling owner of an object. Its strings keep the whole object in memory.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// JSON returns the object as compact JSON without metadata.managedFields. Read-only.
func (o *Object) JSON() []byte { return slices.Clip(o.raw) }

// APIVersion returns such as "v1" or "apps/v1".
func (o *Object) APIVersion() string { return o.typeName.Value().apiVersion }

// Kind returns such as "Deployment".
func (o *Object) Kind() string { return o.typeName.Value().kind }

// Namespace returns "" for a cluster-scoped object.
func (o *Object) Namespace() string { return o.names[:o.nameFrom] }

// Name returns metadata.name.
func (o *Object) Name() string { return o.names[o.nameFrom:] }

// UID returns metadata.uid; "" for an object that was never stored. The string keeps the whole object in memory.
func (o *Object) UID() string { return o.textAt(o.uid) }

// Version returns metadata.resourceVersion as an integer; 0 for an object that was never stored.
// Newer versions of a resource are greater.
func (o *Object) Version() uint64 { return o.version }

// ResourceVersion returns metadata.resourceVersion.
func (o *Object) ResourceVersion() string { return strconv.FormatUint(o.version, 10) }

// Generation returns metadata.generation; 0 for kinds without it.
func (o *Object) Generation() int64 { return o.generation }

// Labels returns metadata.labels.
func (o *Object) Labels() Labels { return Labels{o.textAt(o.labels)} }

// Controller returns the controlling owner, and whether there is one.
func (o *Object) Controller() (owner Owner, owned bool) {
	if o.owner == (ownerRanges{}) {
		return Owner{}, false
	}
	kind := o.owner.typeName.Value()
	return Owner{APIVersion: kind.apiVersion, Kind: kind.kind, Name: o.textAt(o.owner.name), UID: o.textAt(o.owner.uid)}, true
}

// ControlledBy reports whether the controlling owner has the UID.
func (o *Object) ControlledBy(uid string) bool {
	return o.owner != (ownerRanges{}) && o.textAt(o.owner.uid) == uid
}

// textAt returns the text of a range, as a view.
func (o *Object) textAt(p textRange) string {
	if p.from == p.to {
		return ""
	}
	return unsafe.String(&o.raw[:cap(o.raw)][p.from], p.to-p.from) //nolint:gosec // The bytes never change, so a string may share them.
}

// Finalizers returns metadata.finalizers. Since few objects have any, they are read on each use.
func (o *Object) Finalizers() []string {
	var names []string
	if field := o.Field("metadata", "finalizers"); field != nil {
		// Parse has checked the strings.
		_ = json.Unmarshal(field, &names)
	}
	return names
}

// HasFinalizer reports whether the object has a finalizer.
func (o *Object) HasFinalizer(name string) bool {
	return name != "" && bytes.Contains(o.raw, []byte(name)) && slices.Contains(o.Finalizers(), name)
}

// Deleting reports whether metadata.deletionTimestamp is set.
func (o *Object) Deleting() bool { return o.deleted }

// Digest returns a hash of everything but metadata.resourceVersion, stable within this process
// only. Objects with equal digests look the same to a hook.
func (o *Object) Digest() uint64 { return o.digest }

// IntentDigest returns a hash of what users edit: labels, annotations and, by its generation, the
// spec. It ignores the status.
func (o *Object) IntentDigest() uint64 { return o.intent }

// ContentDigest returns a hash of what desired objects can set. For kinds with generations it does not include the
// status.
func (o *Object) ContentDigest() uint64 {
	if o.generation > 0 {
		return o.intent
	}
	return o.digest
}

// Size returns the memory of the object's bytes.
func (o *Object) Size() int { return cap(o.raw) }

// Time returns a time in the metadata, such as creationTimestamp; zero if it is absent.
func (o *Object) Time(name string) (at time.Time) {
	if field := o.Field("metadata", name); field != nil && json.Unmarshal(field, &at) != nil {
		return time.Time{} // The API server writes only valid times.
	}
	return at
}

// Revision returns the number of a ControllerRevision; 0 for other objects.
func (o *Object) Revision() int64 {
	number, _ := strconv.ParseInt(string(o.Field("revision")), 10, 64) // The API server requires a number.
	return number
}

// Labels are key-value pairs: a view of the object's JSON that is read on each use, since there
// may be a hundred thousand objects with few labels each. It implements labels.Labels.
type Labels struct {
	// text is a JSON object of strings without escapes, so that quotes delimit them.
	text string
}

// Label is a key-value pair.
type Label struct{ Key, Value string }

// All iterates over the pairs. Their strings keep the whole object in memory.
func (l Labels) All() iter.Seq[Label] {
	return func(yield func(Label) bool) {
		for rest := l.text; ; {
			var label Label
			label.Key, rest = nextText(rest)
			label.Value, rest = nextText(rest)
			if rest == "" || !yield(label) {
				return
			}
		}
	}
}

// nextText returns the next string and the rest, which is empty at the end.
func nextText(text string) (string, string) {
	_, text, _ = strings.Cut(text, `"`)
	value, rest, _ := strings.Cut(text, `"`)
	return value, rest
}

// Lookup returns the value of a key and whether it exists.
func (l Labels) Lookup(key string) (string, bool) {
	for label := range l.All() {
		if label.Key == key {
			return label.Value, true
		}
	}
	return "", false
}

// Has reports whether the key exists.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of a key, or "".
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// plainLabels returns labels without escapes. It omits those that need them, which no selector can match.
func plainLabels(data []byte) []byte {
	var pairs map[string]string
	_ = json.Unmarshal(data, &pairs) // The parser has checked it.
	plain := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if pair := key + pairs[key]; !strings.ContainsAny(pair, `"\`) {
			plain = append(append(plain, `"`+key+`":"`+pairs[key]+`"`...), ',')
		}
	}
	return append(bytes.TrimSuffix(plain, []byte(",")), '}')
}

// Sorted are objects of one kind in the order of requests to hooks, that of "namespace/name". It takes eight bytes per
// object, and most sets are small.
type Sorted []*Object

// CompareNames orders objects by "namespace/name".
func CompareNames(a, b *Object) int {
	return cmp.Or(compareNamespace(a, b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// compareNamespace orders namespaces as if each ended in a slash, so that "team-a" comes before "team".
func compareNamespace(o *Object, b string) int {
	a := o.Namespace()
	n := min(len(a), len(b))
	if order := cmp.Compare(a[:n], b[:n]); order != 0 || len(a) == len(b) {
		return order
	}
	if len(a) < len(b) {
		return cmp.Compare('/', b[n])
	}
	return cmp.Compare(a[n], '/')
}

// Put adds an object, or replaces the one of its name, which it returns.
func (s *Sorted) Put(o *Object) (former *Object) {
	if n := len(*s); n == 0 || CompareNames((*s)[n-1], o) < 0 {
		*s = append(*s, o) // Lists are sorted.
		return nil
	}
	at, found := slices.BinarySearchFunc(*s, o, CompareNames)
	if !found {
		*s = slices.Insert(*s, at, o)
		return nil
	}
	former, (*s)[at] = (*s)[at], o
	return former
}

// Remove removes the object with the name of another one, and returns it; nil if there is none.
func (s *Sorted) Remove(o *Object) (former *Object) {
	at, found := slices.BinarySearchFunc(*s, o, CompareNames)
	if found {
		former = (*s)[at]
		*s = slices.Delete(*s, at, at+1)
	}
	return former
}

// In returns the objects of one namespace, or all if it is empty.
func (s Sorted) In(namespace string) Sorted {
	if namespace == "" {
		return s
	}
	from, _ := slices.BinarySearchFunc(s, namespace, compareNamespace)
	s = s[from:]
	to, _ := slices.BinarySearchFunc(s, namespace, func(o *Object, namespace string) int {
		return cmp.Or(compareNamespace(o, namespace), -1)
	})
	return s[:to]
}

// IsSecret reports whether an object is a Secret. The apiVersion may be missing.
func IsSecret(members map[string]any) bool {
	return members["kind"] == "Secret" && (members["apiVersion"] == "v1" || members["apiVersion"] == nil)
}

// IsSecret reports whether the kind is that of Secrets.
func (k GroupKind) IsSecret() bool { return k == GroupKind{Kind: "Secret"} }

// IsSecretField reports whether a field of a Secret may hold a value: data, and annotations, in
// which tools keep copies of it.
func IsSecretField(path string) bool {
	for _, field := range []string{"data", "stringData", "metadata.annotations"} {
		if rest, is := strings.CutPrefix(path, field); is && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return path == "" || path == "metadata"
}

// IsLastApplied reports whether an annotation has a copy of its object's fields: that of kubectl,
// and those of controllers.
func IsLastApplied(annotation string) bool { return strings.Contains(annotation, "last-applied") }
