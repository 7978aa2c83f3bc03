package kinds

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Builtin returns a kind that no CRD defines. A kind without a Go type, as of an aggregated API server, takes all
// fields.
func Builtin(resource object.Resource) (*Definition, error) {
	k := &Definition{Resource: resource, Rules: rulesOf(resource)}
	var err error
	if !scheme.Scheme.Recognizes(k.GVK()) {
		k.Schema = untyped{k}
		k.Managers, err = newManagers(k, managedfields.NewDeducedTypeConverter(), true)
		return k, err
	}
	k.Schema = typed{k}
	k.Managers, err = newManagers(k, applyconfigurations.NewTypeConverter(scheme.Scheme), false)
	return k, err
}

// typed is the schema of a Go type.
type typed struct{ *Definition }

func (t typed) Decode(data []byte) (map[string]any, []string, error) {
	into, err := scheme.Scheme.New(t.GVK())
	if err != nil {
		return nil, nil, err
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return nil, nil, err
	}
	setDefaults(into)
	into.GetObjectKind().SetGroupVersionKind(t.GVK())
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	if err != nil {
		return nil, nil, err
	}
	dropEmptyTime(fields)
	keepReset(into, fields)
	return fields, messages(strict), typeOf(data, t.Definition)
}

// stored encodes an object as protobuf and back, as kube-apiserver does when it stores it: that has no empty lists.
func (t typed) Stored(fields map[string]any) (map[string]any, error) {
	into, err := scheme.Scheme.New(t.GVK())
	if err != nil {
		return nil, err
	}
	message, is := into.(protobuf)
	if !is {
		return fields, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return nil, err
	}
	data, err := message.Marshal()
	if err != nil {
		return nil, err
	}
	message.Reset()
	if err := message.Unmarshal(data); err != nil {
		return nil, err
	}
	into.GetObjectKind().SetGroupVersionKind(t.GVK())
	fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	dropEmptyTime(fields)
	return fields, err
}

// protobuf is what Go types of Kubernetes have.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
	Reset()
}

// keepReset keeps an empty list of managed fields, which resets them.
func keepReset(from runtime.Object, fields map[string]any) {
	accessor, err := meta.Accessor(from)
	metadata, is := fields["metadata"].(map[string]any)
	if err == nil && is && accessor.GetManagedFields() != nil && len(accessor.GetManagedFields()) == 0 {
		metadata["managedFields"] = []any{}
	}
}

// typeOf checks the apiVersion and kind of an object, which may be missing.
func typeOf(data []byte, k *Definition) error {
	var has struct{ APIVersion, Kind string }
	if err := json.Unmarshal(data, &has); err != nil {
		return err
	}
	if has.Kind != "" && has.Kind != k.Kind {
		return fmt.Errorf("%s cannot be handled as a %s", has.Kind, k.Kind)
	}
	if has.APIVersion != "" && has.APIVersion != k.APIVersion() {
		return fmt.Errorf("the API version in the data (%s) does not match the expected API version (%s)", has.APIVersion, k.APIVersion())
	}
	return nil
}

func (t typed) Validate(o, old *unstructured.Unstructured, status bool) field.ErrorList {
	errs := append(validateMetadata(o, old, t.Namespaced, t.Rules.name), qualifiedFinalizers(o)...)
	if status {
		return errs
	}
	errs = append(errs, requiredFields(o)...)
	if old != nil {
		errs = append(errs, immutableFields(o, old)...)
	}
	return errs
}

// untyped is the schema of a kind of which nothing is known.
type untyped struct{ *Definition }

func (u untyped) Decode(data []byte) (map[string]any, []string, error) {
	fields, strict, err := decodeFields(data)
	if err != nil {
		return nil, nil, err
	}
	fields["apiVersion"], fields["kind"] = u.APIVersion(), u.Kind
	unknown, err := coerceMetadata(fields)
	return fields, append(messages(strict), unknown...), errors.Join(err, typeOf(data, u.Definition))
}

func (u untyped) Stored(fields map[string]any) (map[string]any, error) { return fields, nil }

func (u untyped) Validate(o, old *unstructured.Unstructured, _ bool) field.ErrorList {
	return validateMetadata(o, old, u.Namespaced, u.Rules.name)
}
