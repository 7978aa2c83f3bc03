package environment

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// service is the model of a cloud that gives load balancers an address.
func service(s *stepper) {
	if s.object.Deleting() || text(s.spec, "type") != "LoadBalancer" {
		return
	}
	ingress, _ := object.FieldAt(s.status, "loadBalancer", "ingress").([]any)
	if len(ingress) == 0 {
		s.step("gets an address", s.setStatus(map[string]any{
			"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1"}}},
		}))
	}
}

// protection is the finalizer of a claim that a pod may use.
const protection = "kubernetes.io/pvc-protection"

// claim is the model of the binding and the protection of PersistentVolumeClaims.
func claim(s *stepper) {
	switch phase := text(s.status, "phase"); {
	case s.object.Deleting():
		if s.object.HasFinalizer(protection) && !s.isUsed() {
			left := slices.DeleteFunc(s.object.Finalizers(), func(name string) bool { return name == protection })
			s.step("is no longer in use", s.merge(map[string]any{"metadata": map[string]any{"finalizers": left}}))
		}
	case phase == "Bound":
		s.failure("loses its volume", s.setStatus(map[string]any{"phase": "Lost"}))
	case phase != "Lost":
		s.step("is bound", s.merge(map[string]any{"spec": map[string]any{"volumeName": "pv-" + s.object.Name()}}),
			s.setStatus(map[string]any{"phase": "Bound", "accessModes": s.spec["accessModes"],
				"capacity": object.FieldAt(s.spec, "resources", "requests")}))
	}
}

// isUsed reports whether a pod that has not ended mounts the claim.
func (s *stepper) isUsed() bool {
	for o := range s.state.Objects() {
		if o.Kind() != "Pod" || o.Namespace() != s.object.Namespace() {
			continue
		}
		phase := strings.Trim(string(o.Field("status", "phase")), `"`)
		if phase != "Succeeded" && phase != "Failed" && mounts(o, s.object.Name()) {
			return true
		}
	}
	return false
}

func mounts(pod *object.Object, claim string) bool {
	var volumes []struct {
		PersistentVolumeClaim struct{ ClaimName string }
	}
	field := pod.Field("spec", "volumes")
	if field == nil || json.Unmarshal(field, &volumes) != nil {
		return false
	}
	for _, volume := range volumes {
		if volume.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}
