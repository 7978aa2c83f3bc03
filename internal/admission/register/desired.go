package register

import (
	"encoding/json"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// configuration is a webhook configuration. A ValidatingWebhookConfiguration has the same
// fields, except that its webhooks have no reinvocationPolicy, and the same encoding.
type configuration = admissionv1.MutatingWebhookConfiguration

// configurationKey identifies a configuration.
type configurationKey struct {
	resource object.Resource
	name     string
}

func (p configurationKey) String() string { return p.resource.Kind + " " + p.name }

// The resources of webhook configurations.
var (
	mutatingResource = object.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "mutatingwebhookconfigurations",
		Kind: "MutatingWebhookConfiguration"}
	validatingResource = object.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations",
		Kind: "ValidatingWebhookConfiguration"}
)

// Resources are the resources of webhook configurations.
func Resources() []object.Resource {
	return []object.Resource{mutatingResource, validatingResource}
}

func keyOf(kind, name string) configurationKey {
	if kind == mutatingResource.Kind {
		return configurationKey{mutatingResource, name}
	}
	return configurationKey{validatingResource, name}
}

// overlay returns a stored configuration before and after the desired fields are set. It
// keeps labels and annotations of other clients, and the resource version, so that a
// concurrent change is a conflict.
func overlay(desired *configuration, o *object.Object) (stored, overlaid *configuration, err error) {
	stored = &configuration{}
	if err := json.Unmarshal(o.JSON(), stored); err != nil {
		return nil, nil, err
	}
	overlaid = stored.DeepCopy()
	overlaid.TypeMeta, overlaid.Webhooks, overlaid.OwnerReferences = desired.TypeMeta, desired.Webhooks, desired.OwnerReferences
	delete(overlaid.Annotations, leaseAnnotation) // Goes, unless it is wanted.
	overlaid.Labels = labels.Merge(overlaid.Labels, desired.Labels)
	overlaid.Annotations = labels.Merge(overlaid.Annotations, desired.Annotations)
	return stored, overlaid, nil
}
