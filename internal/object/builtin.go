package object

import (
	"slices"
	"strings"
)

// IsClusterScoped reports whether a built-in kind is cluster-scoped, for when there is no API
// server to say it.
func IsClusterScoped(kind string) bool {
	return slices.Contains(strings.Fields(`
		CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ComponentStatus DeviceClass
		FlowSchema IPAddress IngressClass MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass
		PriorityLevelConfiguration ResourceSlice RuntimeClass ServiceCIDR StorageClass ValidatingAdmissionPolicy
		ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment VolumeAttributesClass`), kind)
}

// IsBuiltInGroup reports whether the Kubernetes API server itself serves a group. Others are those of CRDs and of
// API servers that are aggregated, also some that end in .k8s.io.
func IsBuiltInGroup(group string) bool {
	return group == "" || slices.Contains(strings.Fields(`
		admissionregistration.k8s.io apps authentication.k8s.io authorization.k8s.io autoscaling batch certificates.k8s.io
		coordination.k8s.io discovery.k8s.io events.k8s.io extensions flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io
		networking.k8s.io node.k8s.io policy rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io
		storagemigration.k8s.io`), group)
}
