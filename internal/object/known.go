package object

// Resources that Setpoint itself reads and writes.
var (
	Events     = Resource{Version: "v1", Plural: "events", Kind: "Event", Namespaced: true}
	Leases     = Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease", Namespaced: true}
	Namespaces = Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	Pods       = Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	Secrets    = Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	ConfigMaps = Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	// ServiceAccounts are what controllers may act as.
	ServiceAccounts = Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true}
)
