package hook

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends the request's wire form to dst. The objects go in as the
// bytes they are. Groups and objects are sorted by their keys, so that
// identical state makes identical bytes.
//
// In V1 an object of another namespace than that of a namespaced parent has no
// key of its own and is left out, be it a child or related.
func (r *Request) AppendJSON(dst []byte, w Wire) []byte {
	keys := r.keys(w.Version)
	dst = slices.Grow(dst, r.wireSize())
	dst = append(dst, `{"controller":`...)
	dst = appendObject(dst, r.Controller)
	dst = appendField(dst, w.ControllerType.parentField())
	dst = appendObject(dst, r.Parent)
	dst = appendField(dst, w.ControllerType.childrenField())
	dst = keys.appendGroups(dst, r.Children)
	dst = appendField(dst, "related")
	dst = keys.appendGroups(dst, r.Related)
	dst = appendField(dst, "finalizing")
	dst = strconv.AppendBool(dst, r.Finalizing)
	return append(dst, '}')
}

// AppendJSON appends the request's wire form to dst. It is the same for all
// kinds of controllers and in all versions.
func (r *CustomizeRequest) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, frameSize+len(r.Controller)+len(r.Parent))
	dst = append(dst, `{"controller":`...)
	dst = appendObject(dst, r.Controller)
	dst = appendField(dst, "parent")
	dst = appendObject(dst, r.Parent)
	return append(dst, '}')
}

// appendField appends the name of a field that is not the first. It needs no
// escapes.
func appendField(dst []byte, name string) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	return append(dst, `":`...)
}

// Room for the punctuation around things, generously.
const (
	frameSize = 96
	groupSize = 8
	entrySize = 8
)

// wireSize is at least the length of the wire form, unless a name needs
// escapes: one allocation does.
func (r *Request) wireSize() int {
	return frameSize + len(r.Controller) + len(r.Parent) + sizeOf(r.Children) + sizeOf(r.Related)
}

func sizeOf(groups []Group) (size int) {
	for _, g := range groups {
		size += groupSize + len(g.Kind) + len(g.APIVersion)
		for _, e := range g.Objects {
			size += entrySize + len(e.Namespace) + len(e.Name) + len(e.Object)
		}
	}
	return size
}

// objectKeys says what objects are called within their group.
type objectKeys struct {
	// onlyNamespace is the only namespace there is; names alone tell objects apart.
	// If it is empty, names have their namespace before them.
	onlyNamespace string
}

func (r *Request) keys(v Version) objectKeys {
	if v == V1 {
		return objectKeys{onlyNamespace: r.ParentNamespace}
	}
	return objectKeys{}
}

func (k objectKeys) appendGroups(dst []byte, groups []Group) []byte {
	dst = append(dst, '{')
	for i, g := range sorted(groups, compareGroups) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendKey(dst, g.Kind, '.', g.APIVersion)
		dst = k.appendEntries(dst, g.Objects)
	}
	return append(dst, '}')
}

func (k objectKeys) appendEntries(dst []byte, entries []Entry) []byte {
	dst = append(dst, '{')
	first := true
	for _, e := range sorted(entries, k.compare) {
		if k.omits(e) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = k.appendEntryKey(dst, e)
		dst = appendObject(dst, e.Object)
	}
	return append(dst, '}')
}

func (k objectKeys) appendEntryKey(dst []byte, e Entry) []byte {
	if k.usesBareName(e) {
		return append(appendString(dst, e.Name), ':')
	}
	return appendKey(dst, e.Namespace, '/', e.Name)
}

func (k objectKeys) omits(e Entry) bool {
	return k.onlyNamespace != "" && e.Namespace != "" && e.Namespace != k.onlyNamespace
}

func (k objectKeys) usesBareName(e Entry) bool { return e.Namespace == "" || k.onlyNamespace != "" }

func (k objectKeys) compare(a, b Entry) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(k.key(a), k.key(b))
}

func (k objectKeys) key(e Entry) string {
	if k.usesBareName(e) {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

func compareGroups(a, b Group) int {
	if a.Kind == b.Kind {
		return cmp.Compare(a.APIVersion, b.APIVersion)
	}
	return cmp.Compare(a.Kind+"."+a.APIVersion, b.Kind+"."+b.APIVersion)
}

// sorted returns the items sorted. The items belong to the asker and stay as
// they are.
func sorted[E any](items []E, compare func(a, b E) int) []E {
	if slices.IsSortedFunc(items, compare) {
		return items
	}
	items = slices.Clone(items)
	slices.SortFunc(items, compare)
	return items
}

// appendKey appends "left<between>right": as one JSON name.
func appendKey(dst []byte, left string, separator byte, right string) []byte {
	dst = appendString(dst, left)
	dst[len(dst)-1] = separator
	at := len(dst)
	dst = appendString(dst, right)
	// Two quoted strings become one: the second's opening quote goes.
	dst = slices.Delete(dst, at, at+1)
	return append(dst, ':')
}

func appendString(dst []byte, s string) []byte {
	// The only error is invalid UTF-8, which is replaced and goes on.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

func appendObject(dst []byte, object json.RawMessage) []byte {
	if len(object) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, object...)
}
