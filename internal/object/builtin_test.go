package object_test

import (
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// The built-in groups are those of client-go, and none of a CRD or of an aggregated API server.
func TestBuiltInGroups(t *testing.T) {
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if !object.IsBuiltInGroup(version.Group) {
			t.Errorf("%s is not built in", version.Group)
		}
	}
	for _, group := range []string{"example.org", "gateway.networking.k8s.io", "snapshot.storage.k8s.io", "metrics.k8s.io", "k8s.io", "metrics"} {
		if object.IsBuiltInGroup(group) || scheme.Scheme.IsGroupRegistered(group) {
			t.Errorf("%s is built in", group)
		}
	}
}
