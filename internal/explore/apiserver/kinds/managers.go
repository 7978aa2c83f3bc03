package kinds

import (
	"errors"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Managers track the managed fields of a kind, by subresource.
type Managers map[string]*managedfields.FieldManager

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
