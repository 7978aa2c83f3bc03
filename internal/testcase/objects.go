package testcase

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// created is the creation time of objects that say none.
const created = "2026-01-01T00:00:00Z"

// defaults complete an abridged object.
type defaults struct {
	// resource is the kind of an object that says none; the zero value if it must say one.
	resource object.Resource
	name     string
	// namespace is that of namespaced objects that say none.
	namespace string
	// owner controls the object; nil for none.
	owner *object.Object
}

// complete returns an object with all metadata that the API server sets. field is its path in the case.
func (t *target) complete(field string, raw json.RawMessage, by defaults) (*object.Object, error) {
	fields, err := object.Decode(raw)
	if err != nil || fields == nil {
		return nil, fmt.Errorf("%s: must be an object", field)
	}
	resource, err := t.kindOf(fields, by.resource)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	metadata, is := fields["metadata"].(map[string]any)
	if !is && fields["metadata"] != nil {
		return nil, fmt.Errorf("%s.metadata: must be an object", field)
	}
	if metadata == nil {
		metadata = map[string]any{}
	}
	setDefault(metadata, "name", by.name)
	if name, is := metadata["name"].(string); !is || name == "" {
		return nil, fmt.Errorf("%s.metadata.name: required, as a string", field)
	}
	if resource.Namespaced {
		setDefault(metadata, "namespace", by.namespace)
	}
	setDefault(metadata, "uid", uidOf(resource, metadata))
	setDefault(metadata, "resourceVersion", "1")
	if resource.Custom {
		setDefault(metadata, "generation", 1)
	}
	setDefault(metadata, "creationTimestamp", created)
	if by.owner != nil {
		setDefault(metadata, "ownerReferences", []any{map[string]any{
			"apiVersion": by.owner.APIVersion(), "kind": by.owner.Kind(), "name": by.owner.Name(), "uid": by.owner.UID(),
			"controller": true, "blockOwnerDeletion": true,
		}})
	}
	fields["metadata"] = metadata
	t.schemas.Default(fields)
	return object.Encode(fields)
}

func rawObjects(all []*object.Object) objects {
	return lists.Map(all, func(o *object.Object) json.RawMessage { return o.JSON() })
}

func setDefault(fields map[string]any, name string, value any) {
	if fields[name] == nil {
		fields[name] = value
	}
}

// kindOf sets the kind of an object that says none, and returns its resource.
func (t *target) kindOf(fields map[string]any, by object.Resource) (object.Resource, error) {
	if by.Kind != "" {
		setDefault(fields, "kind", by.Kind)
		setDefault(fields, "apiVersion", by.APIVersion())
	}
	apiVersion, _ := fields["apiVersion"].(string)
	kind, _ := fields["kind"].(string)
	if apiVersion == "" || kind == "" {
		return by, errors.New("apiVersion and kind are required")
	}
	return t.kinds.ResolveKind(context.Background(), apiVersion, kind)
}

// uidOf returns the same UID for the same object.
func uidOf(resource object.Resource, metadata map[string]any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%v/%v", resource, metadata["namespace"], metadata["name"]))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// grouped adds the objects of a list of the request to the groups of the kinds that a hook always gets.
func grouped(field string, kinds []object.Resource, all []*object.Object) ([]hook.Group, error) {
	groups := lists.Map(kinds, func(r object.Resource) hook.Group { return hook.Group{APIVersion: r.APIVersion(), Kind: r.Kind} })
	for i, o := range all {
		at := slices.IndexFunc(kinds, func(r object.Resource) bool { return r.APIVersion() == o.APIVersion() && r.Kind == o.Kind() })
		if at < 0 {
			return nil, fmt.Errorf("request.%s[%d]: the hook gets no %s of %s there, but %s",
				field, i, o.Kind(), o.APIVersion(), kindList(kinds))
		}
		groups[at].Objects = append(groups[at].Objects, hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()})
	}
	return groups, nil
}

// kindList returns such as "Pod of v1, ConfigMap of v1".
func kindList(kinds []object.Resource) string {
	texts := lists.Map(kinds, func(r object.Resource) string { return r.Kind + " of " + r.APIVersion() })
	return cmp.Or(strings.Join(texts, ", "), "no objects")
}
