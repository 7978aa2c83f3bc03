package install

import "maps"

// manifests lists every object but the CRDs and the namespace.
func manifests() []manifest {
	return append([]manifest{
		{"serviceaccount", nil, serviceAccount()},
		{"clusterrole", nil, clusterRole(name+"-runtime", nil, runtimeRules())},
		{"clusterrole-events", nil, clusterRole(name+"-events", tree{aggregateLabel: "true"}, eventRules())},
		{"clusterrole-aggregate", nil, aggregateRole()},
		{"clusterrolebinding-runtime", nil, clusterBinding(name + "-runtime")},
		{"clusterrolebinding", unset{namespaces}, clusterBinding(name)},
		{"rolebinding-namespaces", each{namespaces}, roleBinding(item, name+"-controllers", "ClusterRole", name)},
		// Events on controllers, which have no namespace, are in this one.
		{"rolebinding-events", namespaces, roleBinding("default", name+"-events", "ClusterRole", name+"-events")},
		{"role", nil, role(namespaceRules())},
		{"rolebinding", nil, roleBinding(releaseNamespace, name, "Role", name)},
		{"clusterrole-view", nil, clusterRole(name+"-view", tree{aggregateTo("view"): "true"}, userRules("get", "list", "watch"))},
		{"clusterrole-edit", nil, clusterRole(name+"-edit", nil, editRules())},
		{"clusterrole-admin", nil, clusterRole(name+"-admin", nil, userRules("*"))},
		{"secret-admission", nil, secret("admission", tree{"setpoint.dev/webhook-certificates": "true"})},
		{"secret-inspect", nil, secret("inspect", nil)},
		{"service", nil, service()},
		{"deployment", nil, deployment()},
		{"poddisruptionbudget", pdb, disruptionBudget()},
		{"networkpolicy", networkPolicy, policy()},
		{"service-dashboard", dashboard, dashboardService()},
		{"servicemonitor", serviceMonitor, monitor()},
		{"prometheusrule", prometheusRule, alertRules()},
		{"configmap-grafana-dashboard", grafana, grafanaConfigMap()},
	}, accountPolicies()...)
}

func serviceAccount() tree {
	o := object("v1", "ServiceAccount", name, nil)
	o["metadata"].(tree)["annotations"] = accountAnnotations
	return o
}

// secret is one that Setpoint fills: the right to create Secrets could not be limited to its name.
// It has no data, so that an upgrade does not empty it.
func secret(purpose string, labels tree) tree {
	o := object("v1", "Secret", name+"-"+purpose, nil)
	maps.Copy(o["metadata"].(tree)["labels"].(tree), labels)
	return o
}

func service() tree {
	return object("v1", "Service", name, tree{
		"selector": selector(),
		"ports": list{
			tree{"name": "webhook", "port": 443, "targetPort": "webhook"},
			tree{"name": "http", "port": httpPort, "targetPort": "http"},
		},
	})
}

// dashboardService keeps a user at one pod: sessions and history belong to a process.
func dashboardService() tree {
	return object("v1", "Service", name+"-dashboard", tree{
		"selector": selector(), "sessionAffinity": "ClientIP",
		"ports": list{tree{"name": "dashboard", "port": 443, "targetPort": "dashboard"}},
	})
}

func disruptionBudget() tree {
	return object("policy/v1", "PodDisruptionBudget", name, tree{
		"maxUnavailable": 1, "selector": tree{"matchLabels": selector()},
	})
}

func policy() tree {
	return object("networking.k8s.io/v1", "NetworkPolicy", name, tree{
		"podSelector": tree{"matchLabels": selector()},
		"policyTypes": list{"Ingress"},
		"ingress": list{
			tree{"ports": list{tree{"port": webhookPort, "protocol": "TCP"}}, "from": webhookPeers},
			tree{"ports": list{tree{"port": httpPort, "protocol": "TCP"}}, "from": metricsPeers}, // health and metrics
			when{dashboard, tree{"ports": list{tree{"port": dashboardPort, "protocol": "TCP"}}}},
		},
	})
}
