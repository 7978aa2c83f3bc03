package apiserver

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// rulesOf returns the rules of a built-in kind.
func rulesOf(resource object.Resource) rules {
	name := fullName(resource)
	is := func(names string) bool { return slices.Contains(strings.Fields(names), name) }
	r := rules{
		generation: is(`Pod PodTemplate Deployment.apps StatefulSet.apps DaemonSet.apps ReplicaSet.apps Job.batch CronJob.batch
			PodDisruptionBudget.policy Ingress.networking.k8s.io IngressClass.networking.k8s.io NetworkPolicy.networking.k8s.io
			PriorityClass.scheduling.k8s.io EndpointSlice.discovery.k8s.io
			MutatingWebhookConfiguration.admissionregistration.k8s.io ValidatingWebhookConfiguration.admissionregistration.k8s.io
			ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io`),
		conditional: is(`PodDisruptionBudget.policy Lease.coordination.k8s.io RuntimeClass.node.k8s.io CSIDriver.storage.k8s.io CSINode.storage.k8s.io
			MutatingWebhookConfiguration.admissionregistration.k8s.io ValidatingWebhookConfiguration.admissionregistration.k8s.io
			ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io`),
		createOnUpdate: is(`RuntimeClass.node.k8s.io Role.rbac.authorization.k8s.io ClusterRole.rbac.authorization.k8s.io
			RoleBinding.rbac.authorization.k8s.io ClusterRoleBinding.rbac.authorization.k8s.io Lease.coordination.k8s.io LimitRange Event Service`),
		returnsDeleted: is(`Pod Service Namespace PersistentVolume PersistentVolumeClaim PodTemplate ResourceQuota ServiceAccount
			CSIDriver.storage.k8s.io CSINode.storage.k8s.io StorageClass.storage.k8s.io VolumeAttachment.storage.k8s.io`),
		orphans: is("Job.batch ReplicationController"),
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
	r.prepare = preparations()[name]
	return r
}

// fullName returns such as "Pod" or "Deployment.apps".
func fullName(resource object.Resource) string {
	if resource.Group == "" {
		return resource.Kind
	}
	return resource.Kind + "." + resource.Group
}

func fullNameOf(o *unstructured.Unstructured) string {
	return fullName(object.Resource{Group: o.GroupVersionKind().Group, Kind: o.GetKind()})
}
