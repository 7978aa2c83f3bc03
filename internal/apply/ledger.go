package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/plan"
)

// edit is an operation of a JSON patch.
type edit struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// ledger is the part of an object's metadata that says who owns which fields.
type ledger struct {
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
	ManagedFields   []entry           `json:"managedFields"`
}

// entry is what one manager owns, by one way of writing.
type entry struct {
	Manager     string          `json:"manager,omitempty"`
	Operation   string          `json:"operation,omitempty"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Time        json.RawMessage `json:"time,omitempty"`
	FieldsType  string          `json:"fieldsType,omitempty"`
	FieldsV1    owned           `json:"fieldsV1,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
}

// owned is a tree of fields. A name says what it stands for: "f:spec" for a
// member, `k:{"name":"web"}` for an item of a list, `v:"x"` for a value in a set,
// and "." for the collection itself.
type owned map[string]owned

// itself names the collection among its items.
const itself = "."

// The ways of writing.
const (
	byApply  = "Apply"
	byUpdate = "Update"
)

// handOver makes the edits by which the manager gets the fields of others.
func (l *ledger) handOver(manager string, t *plan.TakeOver) []edit {
	var edits []edit
	if entries, changed := handOver(l.ManagedFields, manager, t); changed {
		edits = append(edits, edit{"replace", "/metadata/managedFields", entries})
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, key := range t.Forget {
		if _, there := l.Annotations[key]; there {
			edits = append(edits, edit{Op: "remove", Path: "/metadata/annotations/" + escape.Replace(key)})
		}
	}
	return edits
}

// handOver is the entries with what others own by now moved to the manager's.
func handOver(entries []entry, manager string, t *plan.TakeOver) (after []entry, changed bool) {
	mine := entry{Manager: manager, Operation: byApply, FieldsType: "FieldsV1"}
	for _, e := range entries {
		if e.Subresource != "" {
			after = append(after, e)
			continue
		}
		taken, left := split(e, manager, t)
		if len(taken) > 0 {
			mine.APIVersion, mine.Time = e.APIVersion, e.Time
			mine.FieldsV1 = union(mine.FieldsV1, taken)
			changed = changed || e.Manager != manager || e.Operation != byApply
		}
		if len(left) > 0 {
			e.FieldsV1 = left
			after = append(after, e)
		}
	}
	if len(mine.FieldsV1) > 0 {
		after = append(after, mine)
	}
	return after, changed
}

// split sorts the fields of an entry into what the manager gets and what stays.
func split(e entry, manager string, t *plan.TakeOver) (taken, left owned) {
	if e.Manager == manager && e.Operation == byApply {
		return e.FieldsV1, nil
	}
	for _, from := range t.From {
		switch {
		case from.Name != e.Manager:
		case e.Operation == byApply, !from.Shared:
			return e.FieldsV1, nil
		default:
			return splitMetadata(e.FieldsV1, t.Applied)
		}
	}
	return nil, e.FieldsV1
}

// splitMetadata leaves labels, annotations, finalizers and owners that were not
// applied to whoever else wrote them under the same name.
func splitMetadata(fields owned, applied map[string]any) (taken, left owned) {
	const metadata = "f:metadata"
	mine, theirs := owned{}, owned{}
	for name, items := range fields[metadata] {
		known := namesOf(applied[strings.TrimPrefix(name, "f:")])
		put(mine, name, part(items, func(item string) bool { return known[item] }))
		put(theirs, name, part(items, func(item string) bool { return !known[item] }))
	}
	taken, left = maps.Clone(fields), owned{}
	delete(taken, metadata)
	put(taken, metadata, mine)
	put(left, metadata, theirs)
	return taken, left
}

// put adds a member unless there is nothing in it.
func put(fields owned, name string, below owned) {
	if len(below) > 0 {
		fields[name] = below
	}
}

// part is what of the items fits, and the collection itself where anything does.
func part(items owned, fits func(item string) bool) owned {
	found := owned{}
	for item, below := range items {
		if item != itself && fits(item) {
			found[item] = below
		}
	}
	if _, given := items[itself]; given && len(found) > 0 {
		found[itself] = owned{}
	}
	return found
}

// namesOf are the items of labels, annotations, finalizers or owner references
// as an account of fields calls them.
func namesOf(applied any) map[string]bool {
	names := map[string]bool{}
	switch items := applied.(type) {
	case map[string]any:
		for key := range items {
			names["f:"+key] = true
		}
	case []any:
		for _, item := range items {
			names[nameOf(item)] = true
		}
	}
	return names
}

func nameOf(item any) string {
	owner, isOwner := item.(map[string]any)
	if isOwner {
		return fmt.Sprintf(`k:{"uid":%q}`, owner["uid"])
	}
	return fmt.Sprintf("v:%q", item)
}

func union(a, b owned) owned {
	all := owned{}
	maps.Copy(all, a)
	for name, below := range b {
		all[name] = union(all[name], below)
	}
	return all
}
