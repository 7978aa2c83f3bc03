package admission

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// leaseAnnotation names the Lease, as namespace/name, that the process renews which
// registered a configuration. When the process ends without removing it, the Lease runs
// out, and other processes remove the configuration.
const leaseAnnotation = "setpoint.dev/admission-lease"

func (n ObjectName) String() string { return n.Namespace + "/" + n.Name }

// ownerLease is the Lease of the process that registers; the zero ObjectName if it renews none.
func (r Registration) ownerLease() ObjectName {
	if r.Lease == nil || r.Address.URL == "" {
		return ObjectName{}
	}
	return r.Lease()
}

// leaseOf is the Lease that a configuration depends on. None has one that any webhook
// of reaches by a Service: another replica may answer there.
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

// annotation is the value of an annotation of o, "" if it has none.
func annotation(o *object.Object, name string) string {
	var value string
	if json.Unmarshal(orNull(o.Field("metadata", "annotations", name)), &value) != nil {
		return ""
	}
	return value
}
