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
