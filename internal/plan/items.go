package plan

import "slices"

// itemKey is what may tell the items of a list apart: the value of a field and,
// where protocols is set, the protocol it is said for. The API keys ports so,
// and takes one without a protocol to be TCP's. With manifests, the items are whole
// objects, such as the children of a response.
type itemKey struct {
	field     string
	protocols bool
	manifests bool
}

// childKeys tell apart the items of lists in children.
var childKeys = []itemKey{
	{field: "containerPort"}, {field: "containerPort", protocols: true},
	{field: "port"}, {field: "port", protocols: true},
	{field: "mountPath"}, {field: "name"}, {field: "uid"}, {field: "ip"}, {field: "path"},
}

// statusKeys tell apart the items of lists in a status that has many writers:
// conditions, and whatever else can be told apart.
var statusKeys = append([]itemKey{{field: "type"}}, childKeys...)

// displayKeys are all that may tell items apart in what is shown to people.
var displayKeys = append(slices.Clip(childKeys), itemKey{field: "type"}, itemKey{field: "key"}, itemKey{manifests: true})

// ownerKeys tell apart owner references. Two owners of different kinds may have
// one name.
var ownerKeys = []itemKey{{field: "uid"}}

// identity is what an item is told apart by.
type identity struct {
	value    any
	protocol string
}

// items are the items of a list by what tells them apart.
type items struct {
	order []identity
	byID  map[identity]any
}

// index tells the items of a list apart. It returns false if it cannot: because
// one of them lacks the key, or because two share it.
func (k itemKey) index(list []any) (items, bool) {
	// Most keys tell most lists not apart, for which no room is to be made.
	if slices.ContainsFunc(list, k.isMissing) {
		return items{}, false
	}
	found := items{make([]identity, 0, len(list)), make(map[identity]any, len(list))}
	for _, item := range list {
		id, _ := k.of(item)
		if _, shared := found.byID[id]; shared {
			return items{}, false
		}
		found.order = append(found.order, id)
		found.byID[id] = item
	}
	return found, true
}

// isMissing says that an item has no such key.
func (k itemKey) isMissing(item any) bool {
	_, has := k.of(item)
	return !has
}

// of is the identity of one item.
func (k itemKey) of(item any) (identity, bool) {
	members, isObject := item.(map[string]any)
	if !isObject {
		return identity{}, false
	}
	if k.manifests {
		return manifest(members)
	}
	id := identity{value: members[k.field]}
	if k.protocols {
		id.protocol = "TCP"
		if protocol, given := members["protocol"].(string); given {
			id.protocol = protocol
		}
	}
	switch value := id.value.(type) {
	case string, int64, bool:
		return id, true
	case float64:
		// 80 and 80.0 are one port: some hooks know only one kind of number.
		if whole := int64(value); float64(whole) == value {
			id.value = whole
		}
		return id, true
	}
	return identity{}, false
}

// manifest is the identity of a whole object: its kind, namespace and name. Where two
// share that, being of kinds of two groups, the list is compared by place.
func manifest(members map[string]any) (identity, bool) {
	kind, hasKind := members["kind"].(string)
	name, hasName := member(members, "metadata", "name").(string)
	if namespace, given := member(members, "metadata", "namespace").(string); given {
		name = namespace + "/" + name
	}
	return identity{value: kind + " " + name}, hasKind && hasName && kind != "" && name != ""
}
