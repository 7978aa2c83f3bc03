package register

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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

// views watch webhook configurations.
type views map[object.Resource]*cache.View

func watchConfigurations(store *cache.Cache, labels string, changed signal) views {
	all := views{}
	for _, resource := range Resources() {
		all[resource] = store.Watch(cache.Selection{Resource: resource, Labels: labels}, func(cache.Event) { changed.send() })
	}
	return all
}

func (v views) close() {
	for _, view := range v {
		view.Close()
	}
}

// signal wakes up a loop.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// leaseAnnotation is the namespace/name of the Lease that the registering process renews.
// When the process ends without removing the configuration, the Lease expires, and other
// processes remove it.
const leaseAnnotation = "setpoint.dev/admission-lease"

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

// programOf returns the program of a configuration, or "".
func programOf(o *object.Object) string {
	var name string
	if value := o.Field("metadata", "annotations", programAnnotation); value == nil || json.Unmarshal(value, &name) != nil {
		return ""
	}
	return name
}
