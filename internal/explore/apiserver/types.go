package apiserver

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The names of models.
const (
	customModel   = "custom"
	metadataModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
)

// customTypes returns how fields of a custom resource merge.
func customTypes(k *kind, s *structural.Structural) (managedfields.TypeConverter, error) {
	model := s.ToKubeOpenAPI()
	text := *spec.StringProperty()
	model.SetProperty("apiVersion", text)
	model.SetProperty("kind", text)
	model.SetProperty("metadata", *spec.RefSchema("#/components/schemas/" + metadataModel))
	model.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind},
	})
	return managedfields.NewTypeConverter(map[string]*spec.Schema{customModel: model, metadataModel: metadataSchema()}, false)
}

// metadataSchema is the schema of metadata, as kube-apiserver publishes it, without descriptions.
func metadataSchema() *spec.Schema {
	text, number := *spec.StringProperty(), *spec.Int64Property()
	texts := *spec.MapProperty(&text)
	properties := map[string]spec.Schema{
		"annotations": texts, "labels": texts,
		"deletionGracePeriodSeconds": number, "generation": number,
		"finalizers":      listOf(text, "set"),
		"ownerReferences": listOf(ownerSchema(), "map", "uid"),
		"managedFields":   listOf(*new(spec.Schema).Typed("object", ""), "atomic"),
	}
	for _, name := range []string{"creationTimestamp", "deletionTimestamp", "generateName", "name", "namespace", "resourceVersion",
		"selfLink", "uid"} {
		properties[name] = text
	}
	return objectOf(properties)
}

func ownerSchema() spec.Schema {
	text, flag := *spec.StringProperty(), *spec.BoolProperty()
	owner := objectOf(map[string]spec.Schema{
		"apiVersion": text, "kind": text, "name": text, "uid": text, "controller": flag, "blockOwnerDeletion": flag,
	})
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	return *owner
}

func objectOf(properties map[string]spec.Schema) *spec.Schema {
	s := new(spec.Schema).Typed("object", "")
	s.Properties = properties
	return s
}

// listOf returns a list that merges as a set, by keys, or not at all.
func listOf(item spec.Schema, merge string, keys ...any) spec.Schema {
	list := *spec.ArrayProperty(&item)
	list.AddExtension("x-kubernetes-list-type", merge)
	if len(keys) > 0 {
		list.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	return list
}
