package object

import (
	"fmt"
	"slices"
)

// ItemKey identifies the items of a list by a field and, with protocols, by the protocol. The API
// uses port and protocol as the key of ports, with TCP as the default. With manifests, the items
// are whole objects, such as the children of a response.
type ItemKey struct {
	Field     string
	protocols bool
	manifests bool
}

// ChildKeys are the keys of lists in children.
var ChildKeys = []ItemKey{
	{Field: "containerPort"}, {Field: "containerPort", protocols: true},
	{Field: "port"}, {Field: "port", protocols: true},
	{Field: "mountPath"}, {Field: "name"}, {Field: "uid"}, {Field: "ip"}, {Field: "path"},
}

// StatusKeys are the keys of lists in a status with several writers.
var StatusKeys = append([]ItemKey{{Field: "type"}}, ChildKeys...)

// displayKeys are the keys of lists in a diff.
var displayKeys = append(slices.Clip(ChildKeys), ItemKey{Field: "type"}, ItemKey{Field: "key"}, ItemKey{manifests: true})

// OwnerKeys is the key of owner references. Owners of different kinds may have the same name.
var OwnerKeys = []ItemKey{{Field: "uid"}}

// Identity is the value of an ItemKey.
type Identity struct {
	value    any
	protocol string
}

// Items are the items of a list by their key.
type Items struct {
	Order []Identity
	ByID  map[Identity]any
}

// Index returns the items by the key; false if an item has no key or two have the same.
func (k ItemKey) Index(list []any) (Items, bool) {
	// Most keys do not fit most lists: allocate only for those that do.
	if slices.ContainsFunc(list, k.isMissing) {
		return Items{}, false
	}
	found := Items{make([]Identity, 0, len(list)), make(map[Identity]any, len(list))}
	for _, item := range list {
		id, _ := k.of(item)
		if _, shared := found.ByID[id]; shared {
			return Items{}, false
		}
		found.Order = append(found.Order, id)
		found.ByID[id] = item
	}
	return found, true
}

func (k ItemKey) isMissing(item any) bool {
	_, has := k.of(item)
	return !has
}

// of returns the Identity of an item.
func (k ItemKey) of(item any) (Identity, bool) {
	members, isObject := item.(map[string]any)
	if !isObject {
		return Identity{}, false
	}
	if k.manifests {
		return manifest(members)
	}
	id := Identity{value: members[k.Field]}
	if k.protocols {
		id.protocol = "TCP"
		if protocol, named := members["protocol"].(string); named {
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
	return Identity{}, false
}

// manifest returns the kind, namespace and name of an object. If two objects share these because
// their groups differ, the list is compared by index.
func manifest(members map[string]any) (Identity, bool) {
	kind, hasKind := members["kind"].(string)
	name, hasName := FieldAt(members, "metadata", "name").(string)
	if namespace, named := FieldAt(members, "metadata", "namespace").(string); named {
		name = namespace + "/" + name
	}
	return Identity{value: kind + " " + name}, hasKind && hasName && kind != "" && name != ""
}

// describe returns a key such as "name=web", "port=53,protocol=UDP" or "Pod web-0".
func (k ItemKey) describe(id Identity) string {
	if k.manifests {
		return fmt.Sprint(id.value)
	}
	text := fmt.Sprintf("%s=%v", k.Field, id.value)
	if k.protocols {
		text += ",protocol=" + id.protocol
	}
	return text
}
