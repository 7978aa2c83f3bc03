package starlark

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
)

// child returns an object of a group by its name, or None. Keys of namespaced objects are namespace/name in
// requests of version v2; a name alone finds them as well, unless objects in several namespaces have it.
func child(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var groups *starlark.Dict
	var kind, name string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "groups", &groups, "kind", &kind, "name", &name); err != nil {
		return nil, err
	}
	found, _, err := groups.Get(starlark.String(kind))
	if err != nil {
		return nil, err
	}
	group, is := found.(*starlark.Dict)
	if !is {
		return nil, fmt.Errorf("there are no objects %s: there are %s", kind, namesOf(groups.Keys()))
	}
	if object, exists, err := group.Get(starlark.String(name)); exists || err != nil {
		return object, err
	}
	var matching []starlark.Value
	for _, key := range group.Keys() {
		if text, _ := starlark.AsString(key); strings.HasSuffix(text, "/"+name) {
			matching = append(matching, key)
		}
	}
	switch len(matching) {
	case 0:
		return starlark.None, nil
	case 1:
		object, _, err := group.Get(matching[0])
		return object, err
	}
	return nil, fmt.Errorf("there are several %s %s: name one of %s", kind, name, namesOf(matching))
}

func namesOf(keys []starlark.Value) string {
	if len(keys) == 0 {
		return "none"
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i], _ = starlark.AsString(key)
	}
	return strings.Join(names, ", ")
}
