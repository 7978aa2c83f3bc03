package kinds

import (
	"errors"
	"maps"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// newManagers returns the managers of a kind, some of whose fields may have no schema. A write of the object resets
// the status, and one of the status all else.
func newManagers(k *Definition, types managedfields.TypeConverter, open bool) (Managers, error) {
	create := managedfields.NewDefaultFieldManager
	if open {
		create = managedfields.NewDefaultCRDFieldManager
	}
	version := fieldpath.APIVersion(k.APIVersion())
	except := func(paths ...string) fieldFilters {
		set := fieldpath.NewSet()
		for _, path := range paths {
			set.Insert(fieldpath.MakePathOrDie(path))
		}
		return fieldFilters{version: fieldpath.NewExcludeSetFilter(set)}
	}
	resets := map[string]fieldFilters{"": nil}
	if k.Status {
		resets[""] = except("status")
		resets["status"] = except("spec")
		if k.Custom {
			resets["status"] = except("metadata", "spec")
		}
	}
	all := Managers{}
	for subresource, reset := range resets {
		manager, err := create(types, conversions{k}, conversions{k}, conversions{k}, k.GVK(), k.GVK().GroupVersion(), subresource, reset)
		if err != nil {
			return nil, err
		}
		all[subresource] = manager
	}
	return all, nil
}

type fieldFilters = map[fieldpath.APIVersion]fieldpath.Filter

// conversions convert between the versions of a kind, which differ by their names only. Objects have their defaults
// before and after a manager sees them.
type conversions struct{ *Definition }

func (conversions) Default(runtime.Object) {}

func (c conversions) New(schema.GroupVersionKind) (runtime.Object, error) {
	return c.Definition.New(), nil
}

func (conversions) Convert(_, _, _ any) error { return errors.New("not supported") }

func (conversions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	o, is := in.(*unstructured.Unstructured)
	if !is {
		return in, nil
	}
	kind, found := target.KindForGroupVersionKinds([]schema.GroupVersionKind{o.GroupVersionKind()})
	if !found || kind == o.GroupVersionKind() {
		return in, nil
	}
	converted := &unstructured.Unstructured{Object: make(map[string]any, len(o.Object))}
	maps.Copy(converted.Object, o.Object)
	converted.SetGroupVersionKind(kind)
	return converted, nil
}

func (conversions) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// The names of models.
const (
	customModel   = "custom"
	metadataModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
)

// customTypes returns how fields of a custom resource merge.
func customTypes(k *Definition, s *structural.Structural) (managedfields.TypeConverter, error) {
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
