package plan

import "slices"

// itemKey identifies the items of a list by a field and, with protocols, by the protocol. The API
// uses port and protocol as the key of ports, with TCP as the default. With manifests, the items
// are whole objects, such as the children of a response.
type itemKey struct {
	field     string
	protocols bool
	manifests bool
}

// childKeys are the keys of lists in children.
var childKeys = []itemKey{
	{field: "containerPort"}, {field: "containerPort", protocols: true},
	{field: "port"}, {field: "port", protocols: true},
	{field: "mountPath"}, {field: "name"}, {field: "uid"}, {field: "ip"}, {field: "path"},
}

// statusKeys are the keys of lists in a status with several writers.
var statusKeys = append([]itemKey{{field: "type"}}, childKeys...)

// displayKeys are the keys of lists in a diff.
var displayKeys = append(slices.Clip(childKeys), itemKey{field: "type"}, itemKey{field: "key"}, itemKey{manifests: true})

// ownerKeys is the key of owner references. Owners of different kinds may have the same name.
var ownerKeys = []itemKey{{field: "uid"}}

// identity is the value of an itemKey.
type identity struct {
	value    any
	protocol string
}

// items are the items of a list by their key.
type items struct {
	order []identity
	byID  map[identity]any
}

// index returns the items by the key; false if an item has no key or two have the same.
func (k itemKey) index(list []any) (items, bool) {
	// Most keys do not fit most lists: allocate only for those that do.
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

func (k itemKey) isMissing(item any) bool {
	_, has := k.of(item)
	return !has
}

// of returns the identity of an item.
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
		// 80 and 80.0 are the same port: some hooks have only one type of number.
		if whole := int64(value); float64(whole) == value {
			id.value = whole
		}
		return id, true
	}
	return identity{}, false
}

// manifest returns the kind, namespace and name of an object. If two objects share these because
// their groups differ, the list is compared by index.
func manifest(members map[string]any) (identity, bool) {
	kind, hasKind := members["kind"].(string)
	name, hasName := member(members, "metadata", "name").(string)
	if namespace, given := member(members, "metadata", "namespace").(string); given {
		name = namespace + "/" + name
	}
	return identity{value: kind + " " + name}, hasKind && hasName && kind != "" && name != ""
}
