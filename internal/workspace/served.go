package workspace

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// All returns the kinds of CRDs and of Kubernetes, as an API server would list them.
func (k *Kinds) All() []served.Kind {
	var all []served.Kind
	for _, version := range slices.Concat([]schema.GroupVersion{{Version: "v1"}}, scheme.Scheme.PrioritizedVersionsAllGroups()) {
		all = append(all, builtInKinds(version)...)
	}
	for _, defined := range k.defined {
		all = append(all, served.Kind{Kind: defined.Kind, Singular: strings.ToLower(defined.Kind.Kind), ShortNames: defined.ShortNames,
			Categories: defined.Categories, Verbs: verbs})
	}
	return all
}

// verbs are what clients may do with objects of all kinds.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// builtInKinds returns the kinds of Kubernetes in a version: its Go types that have metadata.
func builtInKinds(version schema.GroupVersion) []served.Kind {
	var all []served.Kind
	for kind, goType := range scheme.Scheme.KnownTypes(version) {
		field, has := goType.FieldByName("ObjectMeta")
		if !has || !field.Anonymous || field.Type.Kind() != reflect.Struct {
			continue
		}
		plural, singular := meta.UnsafeGuessKindToResource(version.WithKind(kind))
		all = append(all, served.Kind{
			Kind: object.Kind{
				Group: version.Group, Version: version.Version, Plural: plural.Resource, Kind: kind,
				Namespaced: !object.IsClusterScoped(kind),
			},
			Singular: singular.Resource, Verbs: verbs,
		})
	}
	slices.SortFunc(all, func(a, b served.Kind) int { return strings.Compare(a.Plural, b.Plural) })
	return all
}
