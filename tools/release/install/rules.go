package install

// verbs of rules.
var (
	read    = list{"get", "list", "watch"}
	manage  = list{"get", "list", "watch", "create", "update", "delete"}
	observe = list{"get", "list", "watch", "update", "patch"}
)

// runtimeRules are what Setpoint needs for its own work in every cluster. What a controller needs for
// the kinds it handles is in roles with the aggregate label.
func runtimeRules() list {
	return list{
		rule("setpoint.dev", list{"*"}, observe),
		rule("metacontroller.k8s.io", list{"compositecontrollers", "compositecontrollers/status", "decoratorcontrollers",
			"decoratorcontrollers/status"}, observe),
		rule("apiextensions.k8s.io", list{"customresourcedefinitions"}, read),
		rule("admissionregistration.k8s.io", list{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, manage),
		rule("", list{"namespaces"}, read),
		// To find a Metacontroller, and webhooks of processes that are gone.
		unless{namespaces, rule("apps", list{"deployments", "statefulsets"}, list{"get", "list"})},
		unless{namespaces, rule("coordination.k8s.io", list{"leases"}, list{"list"})},
		// To see whether another Setpoint, which manages a controller, still runs.
		rule("coordination.k8s.io", list{"leases"}, list{"get"}),
		// What the ServiceAccounts of controllers may read.
		rule("authorization.k8s.io", list{"subjectaccessreviews"}, list{"create"}),
	}
}

// eventRules are needed in all namespaces with objects.
func eventRules() list { return list{rule("", list{"events"}, list{"create", "patch"})} }

// namespaceRules are what Setpoint needs in its own namespace.
func namespaceRules() list {
	return list{
		rule("coordination.k8s.io", list{"leases"}, list{"get", "create", "update"}),
		named(rule("", list{"secrets"}, list{"get", "list", "watch", "update"}), name+"-admission"),
		named(rule("", list{"secrets"}, list{"get", "update"}), name+"-inspect"),
		// Versions of the logic of controllers with spec.rollout.
		rule("apps", list{"controllerrevisions"}, list{"get", "list", "create", "update", "delete"}),
		when{certificateSecret, named(rule("", list{"secrets"}, read), certificateSecret)},
	}
}

// userRules are the rights of a user on the kinds of controllers, without their status, by which Setpoint
// keeps what it has to remember.
func userRules(verbs ...any) list {
	return list{
		rule("setpoint.dev", list{"compositecontrollers", "decoratorcontrollers", "handlercontrollers", "admissioncontrollers"}, verbs),
		rule("metacontroller.k8s.io", list{"compositecontrollers", "decoratorcontrollers"}, verbs),
	}
}

// editRules are the rights of a user to write controllers that act as a ServiceAccount, within the
// admission policy. A webhook of an AdmissionController receives all objects whatever its
// ServiceAccount, so they are for admins. No role of Kubernetes aggregates this one: without the
// policy it gives all rights of Setpoint.
func editRules() list {
	return list{rule("setpoint.dev", list{"compositecontrollers", "decoratorcontrollers", "handlercontrollers"},
		list{"get", "list", "watch", "create", "update", "patch", "delete"})}
}

func rule(group string, resources, verbs list) tree {
	return tree{"apiGroups": list{group}, "resources": resources, "verbs": verbs}
}

func named(rule tree, names ...any) tree {
	rule["resourceNames"] = names
	return rule
}

const rbacVersion = "rbac.authorization.k8s.io/v1"

func clusterRole(name string, labels tree, rules list) tree {
	o := clusterObject(rbacVersion, "ClusterRole", name, labels)
	o["rules"] = rules
	return o
}

// aggregateRole collects the rules of all roles with the aggregate label.
func aggregateRole() tree {
	o := clusterObject(rbacVersion, "ClusterRole", name, nil)
	o["aggregationRule"] = tree{"clusterRoleSelectors": list{tree{"matchLabels": tree{aggregateLabel: "true"}}}}
	return o
}

// aggregateTo is the label that adds a role to one of Kubernetes' own.
func aggregateTo(role string) string { return "rbac.authorization.k8s.io/aggregate-to-" + role }

func role(rules list) tree {
	o := object(rbacVersion, "Role", name, nil)
	o["rules"] = rules
	return o
}

// clusterBinding gives the ServiceAccount a ClusterRole in the whole cluster.
func clusterBinding(roleName string) tree {
	return bound(clusterObject(rbacVersion, "ClusterRoleBinding", roleName, nil), "ClusterRole", roleName)
}

// roleBinding gives it a role in a namespace.
func roleBinding(namespace any, bindingName, roleKind, roleName string) tree {
	o := object(rbacVersion, "RoleBinding", bindingName, nil)
	o["metadata"].(tree)["namespace"] = namespace
	return bound(o, roleKind, roleName)
}

func bound(o tree, roleKind, roleName string) tree {
	o["roleRef"] = tree{"apiGroup": "rbac.authorization.k8s.io", "kind": roleKind, "name": roleName}
	o["subjects"] = list{tree{"kind": "ServiceAccount", "name": name, "namespace": releaseNamespace}}
	return o
}
