package plan

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// tiers is the order in which kinds are written, so that dependencies come first. Other kinds come
// last. Deletions use the reverse order.
var tiers = []map[object.GroupKind]bool{
	kinds("", "Namespace"),
	kinds("apiextensions.k8s.io", "CustomResourceDefinition"),
	kinds("", "ServiceAccount", "LimitRange", "ResourceQuota"),
	kinds("rbac.authorization.k8s.io", "Role", "ClusterRole"),
	kinds("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding"),
	kinds("scheduling.k8s.io", "PriorityClass"),
	kinds("storage.k8s.io", "StorageClass"),
	kinds("", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim"),
	kinds("", "Service"),
}

func kinds(group string, names ...string) map[object.GroupKind]bool {
	set := make(map[object.GroupKind]bool, len(names))
	for _, name := range names {
		set[object.GroupKind{Group: group, Kind: name}] = true
	}
	return set
}

func tier(kind object.GroupKind) int {
	for i, members := range tiers {
		if members[kind] {
			return i
		}
	}
	return len(tiers)
}

// stages sorts actions into stages: deletions first, dependants before their dependencies, then
// writes in the opposite order. Within a stage the order of the response stays.
func stages(actions []Action) [][]Action {
	slices.SortStableFunc(actions, func(a, b Action) int { return stageOrder(a) - stageOrder(b) })
	var sorted [][]Action
	for from := 0; from < len(actions); {
		to := from + 1
		for to < len(actions) && stageOrder(actions[to]) == stageOrder(actions[from]) {
			to++
		}
		sorted = append(sorted, actions[from:to:to])
		from = to
	}
	return sorted
}

// stageOrder is negative for deletions, so that they come first.
func stageOrder(a Action) int {
	t := tier(a.Resource.GroupKind())
	if a.Verb == Delete {
		return -1 - t
	}
	return t
}

var namespaceKind = object.GroupKind{Kind: "Namespace"}

// CreatesNamespace reports whether an action creates a namespace into which others of its plan may
// write.
func (a Action) CreatesNamespace() bool {
	return a.Before == nil && a.Verb != Delete && a.Resource.GroupKind() == namespaceKind
}

// WritesInto reports whether an action creates or changes a child in a namespace.
func (a Action) WritesInto(namespace string) bool {
	return a.Ref.Namespace == namespace && a.Verb != Delete && a.Verb != Release
}
