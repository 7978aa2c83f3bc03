package install

import "fmt"

func deployment() tree {
	return object("apps/v1", "Deployment", name, tree{
		"replicas": replicas,
		"selector": tree{"matchLabels": selector()},
		// A standby takes over before the old leader is gone.
		"strategy": tree{"type": "RollingUpdate", "rollingUpdate": tree{"maxUnavailable": 0, "maxSurge": 1}},
		"template": tree{
			"metadata": tree{"labels": merged{selector(), podLabels}, "annotations": podAnnotations},
			"spec":     podSpec(),
		},
	})
}

func podSpec() tree {
	return tree{
		"serviceAccountName": name,
		"imagePullSecrets":   pullSecrets,
		"priorityClassName":  priorityClass,
		"nodeSelector":       nodeSelector,
		"tolerations":        tolerations,
		"affinity":           affinity,

		"topologySpreadConstraints": spread,
		// The process finishes its webhook requests within 5 seconds, and releases the lease.
		"terminationGracePeriodSeconds": 30,
		// What the Pod Security level restricted requires.
		"securityContext": tree{
			"runAsNonRoot": true, "runAsUser": UserID, "runAsGroup": UserID,
			"seccompProfile": tree{"type": "RuntimeDefault"},
		},
		"containers": list{container()},
		"volumes":    whenTLS(list{tree{"name": "dashboard-tls", "secret": tree{"secretName": dashboardSecret}}}),
	}
}

// dashboardFiles is where the container has the certificate of the dashboard.
const dashboardFiles = "/etc/setpoint/dashboard"

// whenTLS returns a field or an item that exists if the dashboard serves TLS. Pods do not start
// without the Secret, so they must not refer to it for a dashboard that is disabled.
func whenTLS(node any) when { return when{dashboard, when{dashboardSecret, node}} }

func container() tree {
	probe := func(path string) tree { return tree{"httpGet": tree{"path": path, "port": "http"}} }
	return tree{
		"name":            name,
		"image":           join{imageRepository, ":", imageTag},
		"imagePullPolicy": imagePullPolicy,
		"args": concat{list{
			"run", "--crds=skip", "--leader-elect=true",
			join{"--log-level=", logLevel}, join{"--log-format=", logFormat},
			when{namespaces, join{"--namespaces=", namespaces}},
			when{defaultAccount, join{"--default-service-account=", defaultAccount}},
			when{certificateSecret, join{"--admission-certificate-secret=", certificateSecret}},
			when{tracesAnnotations, "--trace-annotations"},
			when{dashboard, fmt.Sprintf("--dashboard-address=:%d", dashboardPort)},
			whenTLS("--dashboard-tls-cert-file=" + dashboardFiles + "/tls.crt"),
			whenTLS("--dashboard-tls-key-file=" + dashboardFiles + "/tls.key"),
		}, extraArgs},
		"env": concat{list{
			tree{"name": "POD_NAME", "valueFrom": tree{"fieldRef": tree{"fieldPath": "metadata.name"}}},
			tree{"name": "POD_NAMESPACE", "valueFrom": tree{"fieldRef": tree{"fieldPath": "metadata.namespace"}}},
			when{tracesEndpoint, tree{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": join{tracesEndpoint}}},
			when{tracesRatio, tree{"name": "OTEL_TRACES_SAMPLER", "value": "parentbased_traceidratio"}},
			when{tracesRatio, tree{"name": "OTEL_TRACES_SAMPLER_ARG", "value": join{tracesRatio}}},
		}, extraEnv},
		"ports": list{
			tree{"name": "http", "containerPort": httpPort},
			tree{"name": "webhook", "containerPort": webhookPort},
			when{dashboard, tree{"name": "dashboard", "containerPort": dashboardPort}},
		},
		"livenessProbe":  probe("/healthz"),
		"readinessProbe": probe("/readyz"),
		"resources":      resources,
		"securityContext": tree{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": tree{"drop": list{"ALL"}},
		},
		"volumeMounts": whenTLS(list{tree{"name": "dashboard-tls", "mountPath": dashboardFiles, "readOnly": true}}),
	}
}
