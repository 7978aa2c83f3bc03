package install

// The settings of the chart, in the order of values.yaml.
var (
	imageRepository = &value{"image.repository", "Repository of the image, with its registry.", "setpoint", nonEmpty}
	imageTag        = &value{"image.tag", "Tag of the image; the version of the chart if empty.", releaseVersion, text}
	imagePullPolicy = &value{"image.pullPolicy", "Pull policy of the image.", "IfNotPresent", oneOf("Always", "IfNotPresent", "Never")}
	pullSecrets     = &value{"imagePullSecrets", "Secrets with credentials for the registry, such as {name: registry}.", list{}, objects}

	replicas = &value{"replicas", "Number of pods. One leads, the others stand by and serve webhooks.", 2, atLeast(0)}
	pdb      = &value{"podDisruptionBudget.enabled", "Keep one pod running during voluntary disruptions.", true, boolean}

	resources = &value{"resources", "Requests and limits of the container.",
		tree{"requests": tree{"cpu": "50m", "memory": "112Mi"}}, mapping}
	nodeSelector = &value{"nodeSelector", "Labels of the nodes that pods run on.", tree{}, texts}
	tolerations  = &value{"tolerations", "Tolerations of the pods.", list{}, objects}
	affinity     = &value{"affinity", "Affinity of the pods.", tree{}, mapping}
	spread       = &value{"topologySpreadConstraints", "How pods spread over nodes.", list{tree{
		"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
		"labelSelector": tree{"matchLabels": selector()},
	}}, objects}
	priorityClass  = &value{"priorityClassName", "PriorityClass of the pods.", "", text}
	podLabels      = &value{"podLabels", "More labels of the pods.", tree{}, texts}
	podAnnotations = &value{"podAnnotations", "Annotations of the pods.", tree{}, texts}

	accountAnnotations = &value{"serviceAccount.annotations", "Annotations of the ServiceAccount.", tree{}, texts}

	namespaces = &value{"namespaces", "Namespaces in which Setpoint handles objects, and has rights; all if empty.", list{},
		namespaceNames}
	defaultAccount = &value{"defaultServiceAccount", "ServiceAccount, as NAMESPACE/NAME, of controllers that name none; NAME alone is " +
		"the one in the namespace of each object. Empty is Setpoint's own.",
		"", map[string]any{"type": "string", "pattern": `^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$|^$`}}
	accountPolicyEnabled = &value{"serviceAccountPolicy.enabled",
		"Refuse controllers of users who may not impersonate the ServiceAccount as which the controller acts.", true, boolean}

	logLevel  = &value{"log.level", "Lowest log level.", "info", oneOf("debug", "info", "warn", "error")}
	logFormat = &value{"log.format", "Log format.", "json", oneOf("text", "json")}
	extraArgs = &value{"extraArgs", "More flags of setpoint run, such as --workers=16.", list{}, words}

	extraEnv = &value{"extraEnv", "More environment variables of the container, such as {name: GOMEMLIMIT, value: 230MiB}.", list{},
		objects}

	tracesEndpoint = &value{"traces.endpoint",
		"Send traces by OTLP over HTTP to this URL of a collector, such as http://collector.monitoring:4318.", "",
		map[string]any{"type": "string", "pattern": "^(https?://.+)?$"}}
	tracesRatio = &value{"traces.samplingRatio",
		"Share of the traces that begin here and are recorded, such as \"0.05\"; all if empty.", "",
		map[string]any{"type": "string", "pattern": `^(0(\.[0-9]+)?|1(\.0+)?)?$`}}
	tracesAnnotations = &value{"traces.annotations",
		"Write the trace to an annotation of new children, for controllers in other processes.", false, boolean}

	certificateSecret = &value{"webhook.certificateSecret",
		"Secret with the certificate of the webhook server: tls.crt, tls.key and ca.crt, valid for setpoint.NAMESPACE.svc, " +
			"such as one of cert-manager. Setpoint makes certificates if empty.", "", secretName}

	dashboard       = &value{"dashboard.enabled", "Serve the dashboard, behind the Service setpoint-dashboard.", false, boolean}
	dashboardSecret = &value{"dashboard.tlsSecret",
		"Secret of type kubernetes.io/tls for it. Without one it serves plain HTTP, for a proxy that encrypts.", "", secretName}

	serviceMonitor = &value{"serviceMonitor.enabled",
		"Have the Prometheus operator scrape the metrics. Its CRDs must be installed.", false, boolean}
	serviceMonitorInterval = &value{"serviceMonitor.interval", "How often.", "30s", duration}
	serviceMonitorLabels   = &value{"serviceMonitor.labels",
		"More labels of the ServiceMonitor, such as those that your Prometheus selects.", tree{}, texts}
	serviceMonitorScheme = &value{"serviceMonitor.scheme", "Scheme of a proxy or a mesh in front of the metrics, such as https. The " +
		"metrics themselves are plain HTTP without authentication.", "", oneOf("", "http", "https")}
	serviceMonitorTLS = &value{"serviceMonitor.tlsConfig", "How Prometheus verifies that proxy, as in a ServiceMonitor.", tree{},
		mapping}
	serviceMonitorAuth    = &value{"serviceMonitor.authorization", "Credentials for that proxy, as in a ServiceMonitor.", tree{}, mapping}
	serviceMonitorRelabel = &value{"serviceMonitor.metricRelabelings", "Changes of the scraped metrics, as in a ServiceMonitor.", list{},
		objects}

	prometheusRule = &value{"prometheusRule.enabled",
		"Install the alert rules, for the Prometheus operator. Its CRDs must be installed.", false, boolean}
	prometheusRuleLabels = &value{"prometheusRule.labels", "More labels of the PrometheusRule, such as those that your Prometheus selects.",
		tree{}, texts}

	grafana = &value{"grafanaDashboard.enabled", "Install the dashboard for Grafana in a ConfigMap, for Grafana's sidecar.",
		false, boolean}
	grafanaLabels      = &value{"grafanaDashboard.labels", "More labels of the ConfigMap, beside grafana_dashboard: \"1\".", tree{}, texts}
	grafanaAnnotations = &value{"grafanaDashboard.annotations", "Annotations of the ConfigMap, such as grafana_folder.", tree{}, texts}

	crdsEnabled = &value{"crds.enabled", "Install and upgrade the CRDs with the chart. Helm keeps them, and all objects, at uninstall.",
		true, boolean}

	networkPolicy = &value{"networkPolicy.enabled", "Restrict who reaches the pods.", true, boolean}
	webhookPeers  = &value{"networkPolicy.webhookFrom",
		"Peers that may call webhooks: the API servers, such as {ipBlock: {cidr: 10.0.0.0/28}}; all if empty.", list{}, objects}
	metricsPeers = &value{"networkPolicy.metricsFrom", "Peers that may read metrics and health, such as {namespaceSelector: " +
		"{matchLabels: {kubernetes.io/metadata.name: monitoring}}}; all if empty. Kubelets always may.", list{}, objects}
)

// values lists every setting once: values.yaml, its schema and the check of the templates derive from
// it.
var values = []*value{
	imageRepository, imageTag, imagePullPolicy, pullSecrets,
	replicas, pdb,
	resources, nodeSelector, tolerations, affinity, spread, priorityClass, podLabels, podAnnotations,
	accountAnnotations,
	namespaces,
	defaultAccount, accountPolicyEnabled,
	logLevel, logFormat, extraArgs, extraEnv,
	tracesEndpoint, tracesRatio, tracesAnnotations,
	certificateSecret, dashboard, dashboardSecret,
	crdsEnabled,
	networkPolicy, webhookPeers, metricsPeers,
	serviceMonitor, serviceMonitorInterval, serviceMonitorLabels, serviceMonitorScheme, serviceMonitorTLS, serviceMonitorAuth,
	serviceMonitorRelabel,
	prometheusRule, prometheusRuleLabels,
	grafana, grafanaLabels, grafanaAnnotations,
}
