package register

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Metadata of configurations.
const (
	groupLabel        = "setpoint.dev/admission"
	programAnnotation = "setpoint.dev/admission-program"
	// leaseAnnotation is the namespace/name of the Lease that the registering process renews. When the process ends
	// without removing the configuration, the Lease expires, and other processes remove it.
	leaseAnnotation = "setpoint.dev/admission-lease"
	// AnyGroup selects the configurations of all groups.
	AnyGroup = groupLabel
)

// GroupSelector selects all configurations of a group.
func GroupSelector(group string) string { return groupLabel + "=" + group }

// GroupOf returns the group of a configuration.
func GroupOf(o *object.Object) string { return o.Labels().Get(groupLabel) }

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

// programOf returns the program of a configuration, or "".
func programOf(o *object.Object) string {
	var name string
	if value := o.Field("metadata", "annotations", programAnnotation); value == nil || json.Unmarshal(value, &name) != nil {
		return ""
	}
	return name
}

// leaseOf returns the Lease of a configuration. A configuration with a webhook that is a
// Service has none, because another replica may serve it.
func leaseOf(o *object.Object) (types.NamespacedName, bool) {
	var c configuration
	err := json.Unmarshal(o.JSON(), &c)
	namespace, name, found := strings.Cut(c.Annotations[leaseAnnotation], "/")
	if err != nil || !found || len(c.Webhooks) == 0 {
		return types.NamespacedName{}, false
	}
	for i := range c.Webhooks {
		if client := c.Webhooks[i].ClientConfig; client.URL == nil || client.Service != nil {
			return types.NamespacedName{}, false
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
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

// remove deletes a configuration with its UID as precondition. A missing one is not an
// error.
func remove(ctx context.Context, client rest.Interface, resource object.Resource, o *object.Object) error {
	uid := types.UID(o.UID())
	err := request.Delete(ctx, client, resource, o, metav1.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func wrapError(verb string, key configurationKey, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, key, err)
}

// Permissions returns the permissions of a Registrar that probes in a namespace.
func Permissions(namespace string) []admission.Permission {
	return append(configurationPermissions("get", "list", "watch", "create", "update", "delete"),
		admission.Permission{Resource: object.Leases, Namespace: namespace, Verbs: []string{"create"}})
}

// AuthorPermissions are what the author of webhooks needs to register them without Setpoint.
func AuthorPermissions() []admission.Permission {
	return configurationPermissions("create", "update", "delete")
}

// CollectorPermissions are the permissions of a Collector, except for Leases.
func CollectorPermissions() []admission.Permission {
	return configurationPermissions("list", "watch", "delete")
}

func configurationPermissions(verbs ...string) []admission.Permission {
	return []admission.Permission{{Resource: mutatingResource, Verbs: verbs}, {Resource: validatingResource, Verbs: verbs}}
}
