package install

import (
	_ "embed"

	"sigs.k8s.io/yaml"
)

//go:embed alerts.yaml
var alerts []byte

// monitor selects the Service with the port of the metrics.
func monitor() tree {
	o := object("monitoring.coreos.com/v1", "ServiceMonitor", name, tree{
		"selector": tree{"matchLabels": selector()},
		"endpoints": list{tree{
			"port": "http", "path": "/metrics", "interval": serviceMonitorInterval, "scheme": serviceMonitorScheme,
			"tlsConfig": serviceMonitorTLS, "authorization": serviceMonitorAuth, "metricRelabelings": serviceMonitorRelabel,
		}},
	})
	return withLabels(o, serviceMonitorLabels)
}

// alertRules has the rules for the Prometheus operator.
func alertRules() tree {
	var rules tree
	if err := yaml.UnmarshalStrict(alerts, &rules); err != nil {
		panic(err) // in alerts.yaml
	}
	return withLabels(object("monitoring.coreos.com/v1", "PrometheusRule", name, rules), prometheusRuleLabels)
}

// grafanaConfigMap has the dashboard, with the label that Grafana's sidecar selects by default.
func grafanaConfigMap() tree {
	o := object("v1", "ConfigMap", name+"-grafana-dashboard", nil)
	o["metadata"].(tree)["annotations"] = grafanaAnnotations
	o["metadata"].(tree)["labels"].(tree)["grafana_dashboard"] = "1"
	o["data"] = tree{"setpoint.json": string(dashboardJSON())}
	return withLabels(o, grafanaLabels)
}

// withLabels adds labels from a setting to an object.
func withLabels(o tree, more *value) tree {
	metadata := o["metadata"].(tree)
	metadata["labels"] = merged{metadata["labels"].(tree), more}
	return o
}
