// Package kinds knows the kinds that the API server in memory serves: the schema of each, which reads, defaults and
// checks objects, its managed fields, and the rules of built-in kinds. It stores nothing.
package kinds

import (
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Definition is what an API server knows of a kind in one version.
type Definition struct {
	object.Resource
	// Custom reports whether metadata of a status update is ignored and updates need a resource version.
	Custom   bool
	Schema   Schema
	Rules    Rules
	Managers Managers
}

// Schema reads and checks objects.
type Schema interface {
	// Decode reads an object, prunes unknown fields, of which it returns the paths, and sets defaults.
	Decode(data []byte) (fields map[string]any, unknown []string, err error)
	// Stored returns an object as it is read from the store.
	Stored(fields map[string]any) (map[string]any, error)
	// Validate checks an object. There is no old one if it is created.
	Validate(o, old *unstructured.Unstructured, status bool) field.ErrorList
}

// Rules are what the API server knows about a kind besides its schema.
type Rules struct {
	// Generation reports whether objects have a generation.
	Generation bool
	// Conditional reports whether updates need a resource version.
	Conditional bool
	// CreateOnUpdate reports whether PUT creates objects.
	CreateOnUpdate bool
	// ReturnsDeleted reports whether the response to a deletion is the object that is gone.
	ReturnsDeleted bool
	// Orphans reports whether dependents are orphaned by default.
	Orphans bool
	name    validation.ValidateNameFunc
	// Prepare changes an object before it is checked. There is no old one if it is created.
	Prepare func(o, old *unstructured.Unstructured)
}

// GVK returns the kind for libraries.
func (k *Definition) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// New returns an empty object. That of a Go type has members without values.
func (k *Definition) New() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if zero, err := scheme.Scheme.New(k.GVK()); err == nil && !k.Custom {
		if fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(zero); err == nil {
			o.Object = fields
			dropEmptyTime(fields)
		}
	}
	o.SetGroupVersionKind(k.GVK())
	return o
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

// rulesOf returns the rules of a built-in kind.
func rulesOf(resource object.Resource) Rules {
	name := FullName(resource)
	is := func(names string) bool { return slices.Contains(strings.Fields(names), name) }
	r := Rules{
		Generation: is(`Pod PodTemplate Deployment.apps StatefulSet.apps DaemonSet.apps ReplicaSet.apps Job.batch CronJob.batch
			HorizontalPodAutoscaler.autoscaling PodDisruptionBudget.policy
			Ingress.networking.k8s.io IngressClass.networking.k8s.io NetworkPolicy.networking.k8s.io
			PriorityClass.scheduling.k8s.io EndpointSlice.discovery.k8s.io
			MutatingWebhookConfiguration.admissionregistration.k8s.io ValidatingWebhookConfiguration.admissionregistration.k8s.io
			ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io`),
		Conditional: is(`PodDisruptionBudget.policy Lease.coordination.k8s.io RuntimeClass.node.k8s.io
			CSIDriver.storage.k8s.io CSINode.storage.k8s.io
			MutatingWebhookConfiguration.admissionregistration.k8s.io ValidatingWebhookConfiguration.admissionregistration.k8s.io
			ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io`),
		CreateOnUpdate: is(`RuntimeClass.node.k8s.io Role.rbac.authorization.k8s.io ClusterRole.rbac.authorization.k8s.io
			RoleBinding.rbac.authorization.k8s.io ClusterRoleBinding.rbac.authorization.k8s.io Lease.coordination.k8s.io
			LimitRange Event Service`),
		ReturnsDeleted: is(`Pod Service Namespace PersistentVolume PersistentVolumeClaim PodTemplate ResourceQuota ServiceAccount
			CSIDriver.storage.k8s.io CSINode.storage.k8s.io StorageClass.storage.k8s.io VolumeAttachment.storage.k8s.io`),
		Orphans: is("Job.batch ReplicationController"),
		name:    validation.NameIsDNSSubdomain,
	}
	switch {
	case is("Namespace"):
		r.name = validation.NameIsDNSLabel
	case is("Service"):
		r.name = validation.NameIsDNS1035Label
	case resource.Group == "rbac.authorization.k8s.io":
		r.name = func(string, bool) []string { return nil }
	}
	r.Prepare = preparations()[name]
	return r
}

// FullName returns such as "Pod" or "Deployment.apps".
func FullName(resource object.Resource) string {
	if resource.Group == "" {
		return resource.Kind
	}
	return resource.Kind + "." + resource.Group
}

func fullNameOf(o *unstructured.Unstructured) string {
	return FullName(object.Resource{Group: o.GroupVersionKind().Group, Kind: o.GetKind()})
}
