package codec

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/setpoint-dev/setpoint/hook"
)

// appendField appends a comma and a field name, which must not need escaping.
func appendField(dst []byte, name string) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	return append(dst, `":`...)
}

// Upper bounds for the punctuation around values.
const (
	frameSize = 96
	groupSize = 8
	entrySize = 8
)

func sizeOf(groups []hook.Group) (size int) {
	for _, g := range groups {
		size += groupSize + len(g.Kind) + len(g.APIVersion)
		for _, e := range g.Objects {
			size += entrySize + len(e.Namespace) + len(e.Name) + len(e.Object)
		}
	}
	return size
}

// objectKeys builds the keys of objects within their group.
type objectKeys struct {
	// onlyNamespace is set if all objects share one namespace: keys are then bare names.
	// Otherwise keys are namespace/name.
	onlyNamespace string
}

func (k objectKeys) appendGroups(dst []byte, groups []hook.Group) []byte {
	dst = append(dst, '{')
	for i, g := range sorted(groups, compareGroups) {
		dst = appendKey(appendComma(dst, i), g.Kind, '.', g.APIVersion)
		dst = k.appendEntries(dst, g.Objects)
	}
	return append(dst, '}')
}

func (k objectKeys) appendEntries(dst []byte, entries []hook.Entry) []byte {
	dst = append(dst, '{')
	written := 0
	for _, e := range sorted(entries, k.compare) {
		if k.onlyNamespace != "" && e.Namespace != "" && e.Namespace != k.onlyNamespace {
			continue
		}
		dst = appendComma(dst, written)
		written++
		if k.usesBareName(e) {
			dst = append(appendString(dst, e.Name), ':')
		} else {
			dst = appendKey(dst, e.Namespace, '/', e.Name)
		}
		dst = appendObject(dst, e.Object)
	}
	return append(dst, '}')
}

func (k objectKeys) usesBareName(e hook.Entry) bool {
	return e.Namespace == "" || k.onlyNamespace != ""
}

func (k objectKeys) compare(a, b hook.Entry) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(k.entryKey(a), k.entryKey(b))
}

func (k objectKeys) entryKey(e hook.Entry) string {
	if k.usesBareName(e) {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

func compareGroups(a, b hook.Group) int {
	if a.Kind == b.Kind {
		return cmp.Compare(a.APIVersion, b.APIVersion)
	}
	return cmp.Compare(a.Kind+"."+a.APIVersion, b.Kind+"."+b.APIVersion)
}

// sorted returns the items in order. It copies them if necessary: the caller owns them.
func sorted[E any](items []E, compare func(a, b E) int) []E {
	if slices.IsSortedFunc(items, compare) {
		return items
	}
	items = slices.Clone(items)
	slices.SortFunc(items, compare)
	return items
}

// appendKey appends left, separator and right as one JSON name, and a colon.
func appendKey(dst []byte, left string, separator byte, right string) []byte {
	dst = appendString(dst, left)
	dst[len(dst)-1] = separator
	at := len(dst)
	dst = appendString(dst, right)
	// Join both quoted strings: drop the second's opening quote.
	dst = slices.Delete(dst, at, at+1)
	return append(dst, ':')
}

func appendString(dst []byte, s string) []byte {
	// AppendQuote replaces invalid UTF-8; its error reports only that.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

func appendObject(dst []byte, object json.RawMessage) []byte {
	if len(object) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, object...)
}

// appendOptional appends a string, or null for "".
func appendOptional(dst []byte, value string) []byte {
	if value == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, value)
}

// microTime is how Kubernetes writes times with microseconds.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// appendTime appends a time, or null for zero.
func appendTime(dst []byte, value time.Time) []byte {
	if value.IsZero() {
		return append(dst, "null"...)
	}
	return append(value.UTC().AppendFormat(append(dst, '"'), microTime), '"')
}

// appendComma appends the comma before every item but the first.
func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}
