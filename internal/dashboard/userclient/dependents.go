package userclient

import (
	"encoding/json"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Dependent is an object with an owner reference.
type Dependent struct {
	object.Ref
	Created  time.Time
	Deleting bool
	// Object is its JSON, for workloads and pods only; nil if the user may not read it.
	Object json.RawMessage
}

// BuiltinChildKinds returns the kinds that the controllers of Kubernetes create for a kind.
func BuiltinChildKinds(kind object.Kind) []object.Kind {
	switch kind.Kind + "." + kind.Group {
	case "Deployment.apps":
		return []object.Kind{{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}}
	case "CronJob.batch":
		return []object.Kind{{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true}}
	case "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController.":
		return []object.Kind{podKind}
	}
	return nil
}

var podKind = object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
