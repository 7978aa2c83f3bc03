// Package kinds knows the kinds that the API server in memory serves: the schema of each, which reads, defaults and
// checks objects, its managed fields, and the rules of built-in kinds. It stores nothing.
package kinds

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/setpoint-dev/setpoint/internal/lists"
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

// Managers track the managed fields of a kind, by subresource.
type Managers map[string]*managedfields.FieldManager

// IsPod reports whether it is the kind Pod, which has rules of its own in many places.
func (k *Definition) IsPod() bool { return k.Group == "" && k.Kind == "Pod" }

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

// rulesOf returns the rules of a built-in kind.
func rulesOf(resource object.Resource) Rules {
	name := schema.GroupKind{Group: resource.Group, Kind: resource.Kind}.String()
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

// decodeFields decodes an object, and returns what a strict decoder refuses in it.
func decodeFields(data []byte) (fields map[string]any, strict []error, err error) {
	if strict, err = kjson.UnmarshalStrict(data, &fields); err != nil {
		return nil, nil, err
	}
	if fields == nil {
		return nil, nil, errors.New("the body is no object")
	}
	return fields, strict, nil
}

func messages(errs []error) []string { return lists.Map(errs, error.Error) }

// dropEmptyTime drops the creation time that Go types have for none.
func dropEmptyTime(fields map[string]any) {
	metadata, _ := fields["metadata"].(map[string]any)
	if created, there := metadata["creationTimestamp"]; there && created == nil {
		delete(metadata, "creationTimestamp")
	}
}

// coerceMetadata prunes metadata by its Go type.
func coerceMetadata(fields map[string]any) ([]string, error) {
	metadata, found, unknown, err := objectmeta.GetObjectMetaWithOptions(fields,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil || !found {
		return nil, err
	}
	for i, path := range unknown {
		unknown[i] = fmt.Sprintf("unknown field %q", path)
	}
	if err := objectmeta.SetObjectMeta(fields, metadata); err != nil {
		return nil, err
	}
	dropEmptyTime(fields)
	return unknown, nil
}

func validateMetadata(o, old *unstructured.Unstructured, namespaced bool, name validation.ValidateNameFunc) field.ErrorList {
	path := field.NewPath("metadata")
	if old != nil {
		accepted := func(string, bool) []string { return nil } // The name is an old one.
		return append(validation.ValidateObjectMetaAccessor(o, namespaced, accepted, path),
			validation.ValidateObjectMetaAccessorUpdate(o, old, path)...)
	}
	return validation.ValidateObjectMetaAccessor(o, namespaced, name, path)
}

// Nested returns the value at a path; nil if there is none.
func Nested(o *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

// SetNested sets the value at a path; nil removes it. A parent of another type has been refused before.
func SetNested(o *unstructured.Unstructured, value any, path ...string) {
	if value == nil {
		unstructured.RemoveNestedField(o.Object, path...)
		return
	}
	_ = unstructured.SetNestedField(o.Object, value, path...)
}
