package apiserver

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// State is what is stored. It never changes.
type State struct {
	// Entries are all names that objects have or had, sorted by CompareRefs.
	Entries []Entry
}

// Entry is a name: the object that has it, and what is left of those that had it before.
type Entry struct {
	// Ref is an identity: group, kind, namespace and name.
	Ref object.Ref
	// Object is nil if no object has the name now. It keeps its managed fields, which JSON leaves out. One that is in two
	// states is the same pointer.
	Object *object.Object
	// Incarnations counts the objects that had the name, which makes their UIDs differ.
	Incarnations uint64
	// Written is the last resource version under the name. Versions count the writes of one name, not of the
	// cluster: writes of different objects then lead to the same state in any order.
	Written uint64
}

// CompareRefs orders objects by group, kind, namespace and name.
func CompareRefs(a, b object.Ref) int {
	return cmp.Or(CompareKinds(a, b), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// CompareKinds orders objects by group and kind.
func CompareKinds(a, b object.Ref) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind.Kind, b.Kind.Kind))
}

// Get returns the object of a name; nil if there is none.
func (s *State) Get(resource object.Resource, namespace, name string) *object.Object {
	return s.At(resource.Ref(namespace, name)).Object
}

// At returns the entry of a name, an empty one if no object ever had it.
func (s *State) At(ref object.Ref) Entry {
	if i, found := s.search(ref); found {
		return s.Entries[i]
	}
	return Entry{Ref: ref.Identity()}
}

func (s *State) search(ref object.Ref) (int, bool) {
	return slices.BinarySearchFunc(s.Entries, ref, func(at Entry, ref object.Ref) int { return CompareRefs(at.Ref, ref) })
}

// Objects iterates over all objects.
func (s *State) Objects() iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		for i := range s.Entries {
			if o := s.Entries[i].Object; o != nil && !yield(o) {
				return
			}
		}
	}
}

// with returns the state after a write.
func (s *State) with(at Entry) *State {
	i, found := s.search(at.Ref)
	after := slices.Clone(s.Entries)
	if found {
		after[i] = at
	} else {
		after = slices.Insert(after, i, at)
	}
	return &State{after}
}

// uidMarker is the middle of each UID that this server makes, by which they are found in objects.
const uidMarker = "-4e70-8e70-"

// IncarnationDigits is how many digits at the end of a UID count the objects that had the name. Before them are 8 and 4 digits
// of a hash of the name, and the marker.
const (
	IncarnationDigits = 12

	hashSize = 13
	uidSize  = hashSize + len(uidMarker) + IncarnationDigits
)

// newUID returns the UID of an object. It derives from the name alone, so that the order in which objects with
// different names are created makes no difference.
func newUID(k object.GroupKind, namespace, name string, incarnations uint64) string {
	sum := sha256.Sum256([]byte(k.Group + "/" + k.Kind + "/" + namespace + "/" + name))
	return fmt.Sprintf("%x-%x%s%012x", sum[:4], sum[4:6], uidMarker, incarnations)
}

// UIDsIn returns the UIDs that this server made in an object, in order of appearance, among them its own. A search compares
// them by rank.
func UIDsIn(o *object.Object) (uids []string) {
	text := string(o.JSON())
	for {
		at := strings.Index(text, uidMarker) - hashSize
		if at < 0 || len(text) < at+uidSize {
			return uids
		}
		uids = append(uids, text[at:at+uidSize])
		text = text[at+uidSize:]
	}
}
