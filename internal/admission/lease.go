package admission

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// leaseAnnotation is the namespace/name of the Lease that the registering process renews.
// When the process ends without removing the configuration, the Lease expires, and other
// processes remove it.
const leaseAnnotation = "setpoint.dev/admission-lease"

func (n ObjectName) String() string { return n.Namespace + "/" + n.Name }

// ownerLease returns the Lease of the registering process, or the zero ObjectName.
func (r Registration) ownerLease() ObjectName {
	if r.Lease == nil || r.Address.URL == "" {
		return ObjectName{}
	}
	return r.Lease()
}

// leaseOf returns the Lease of a configuration. A configuration with a webhook that is a
// Service has none, because another replica may serve it.
func leaseOf(o *object.Object) (ObjectName, bool) {
	namespace, name, found := strings.Cut(annotation(o, leaseAnnotation), "/")
	var webhooks []struct {
		ClientConfig struct {
			URL     string          `json:"url"`
			Service json.RawMessage `json:"service"`
		} `json:"clientConfig"`
	}
	if !found || json.Unmarshal(orNull(o.Field("webhooks")), &webhooks) != nil || len(webhooks) == 0 {
		return ObjectName{}, false
	}
	for _, w := range webhooks {
		if w.ClientConfig.URL == "" || w.ClientConfig.Service != nil {
			return ObjectName{}, false
		}
	}
	return ObjectName{namespace, name}, true
}

func annotation(o *object.Object, name string) string {
	var value string
	if json.Unmarshal(orNull(o.Field("metadata", "annotations", name)), &value) != nil {
		return ""
	}
	return value
}
