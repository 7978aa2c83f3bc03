// Package install says what an installation of Setpoint in a cluster consists of, once: the
// Helm chart, the plain manifests and the kustomize base are written from the same objects, so that
// they cannot disagree.
//
// What lives here: the objects (manifests.go, deployment.go, rules.go), the settings of the chart
// (values.go), and how both become YAML. What must not: builds, images, archives. Who calls:
// tools/release.
package install

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Files are the contents of files by their slash-separated paths.
type Files map[string][]byte

// Manifests returns the plain manifests of a version as a kustomize base: install.yaml,
// crds.yaml and kustomization.yaml. CRDs are the manifests of the CRDs by their names.
func Manifests(version string, crds map[string][]byte) Files {
	w := writer{builtins: map[builtin]string{releaseNamespace: namespace, releaseVersion: version, managedBy: name}}
	documents := []string{w.document(namespaceObject())}
	for _, m := range manifests() {
		if m.enabled != nil {
			if _, byDefault := m.enabled.block(); !byDefault {
				continue
			}
		}
		documents = append(documents, w.document(m.object))
	}
	var definitions [][]byte
	for _, crd := range slices.Sorted(maps.Keys(crds)) {
		definitions = append(definitions, crds[crd])
	}
	return Files{
		"install.yaml": []byte(strings.Join(documents, "---\n")),
		"crds.yaml":    bytes.Join(definitions, []byte("---\n")),
		"kustomization.yaml": []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [crds.yaml, " +
			"install.yaml]\n"),
	}
}

// namespaceObject is the namespace of the plain manifests, with the strictest Pod Security level.
func namespaceObject() tree {
	return tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{
		"name": namespace, "labels": tree{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
}

// Chart returns the files of the Helm chart of a version, which is a semantic version.
func Chart(version string, crds map[string][]byte) (Files, error) {
	files := Files{
		"Chart.yaml":          []byte(fmt.Sprintf(chartYAML, version, version)),
		"values.yaml":         valuesYAML(),
		"templates/NOTES.txt": []byte(notes),
		"templates/once.yaml": []byte(onceTemplate),
	}
	w := writer{template: true}
	for _, m := range manifests() {
		files["templates/"+m.file+".yaml"] = guarded(m.enabled, w.document(m.object))
	}
	for crd, manifest := range crds {
		keep := strings.Replace(string(manifest), "  annotations:\n", "  annotations:\n    helm.sh/resource-policy: keep\n", 1)
		files["templates/crds/"+crd] = guarded(crdsEnabled, w.literal(keep))
	}
	schema, err := json.MarshalIndent(valuesSchema(), "", "  ")
	files["values.schema.json"] = append(schema, '\n')
	return files, err
}

// Monitoring returns what shows the metrics without Helm: alert rules, as a file of Prometheus' rule_files,
// and a dashboard, to import into Grafana.
func Monitoring() Files {
	return Files{"setpoint-alerts.yaml": alerts, "setpoint-dashboard.json": dashboardJSON()}
}

// guarded returns a template that a condition includes.
func guarded(enabled condition, document string) []byte {
	if enabled == nil {
		return []byte(document)
	}
	begin, _ := enabled.block()
	if _, ok := enabled.(each); ok {
		document = "---\n" + document
	}
	return []byte("{{- " + begin + " }}\n" + document + "{{- end }}\n")
}

const chartYAML = `apiVersion: v2
name: setpoint
description: A Kubernetes controller runtime. You write what should be, Setpoint does the rest.
type: application
version: %s
appVersion: %s
kubeVersion: ">=1.30.0-0"
`

const notes = `Setpoint {{ .Chart.AppVersion }} is installed in the namespace {{ .Release.Namespace }}. Wait for it:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/setpoint

It has no rights on the kinds of your controllers. Grant them by a ClusterRole with the label
` + aggregateLabel + `=true, which "setpoint rbac FILE" prints, then apply
the controllers. The condition Accepted names what is missing:

  kubectl get setpoint
{{- if .Values.dashboard.enabled }}

The dashboard, with a token of a user:

  kubectl -n {{ .Release.Namespace }} port-forward service/setpoint-dashboard 8443:443
{{- end }}

After "helm uninstall {{ .Release.Name }} -n {{ .Release.Namespace }}" the CRDs and all objects are there, and so are Setpoint's
finalizers and webhook configurations. Remove these:

  setpoint uninstall --namespace {{ .Release.Namespace }}
`

// onceTemplate refuses a second installation before Helm changes anything: both would run all
// controllers. Helm itself would only say that a ClusterRole exists.
const onceTemplate = `{{- $installed := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "setpoint" }}
{{- if $installed }}
{{- $of := $installed.metadata.annotations | default dict }}
{{- $release := index $of "meta.helm.sh/release-name" | default "" }}
{{- $namespace := index $of "meta.helm.sh/release-namespace" | default "" }}
{{- if not $release }}
{{- fail "Setpoint is installed in this cluster, without Helm: its ClusterRole setpoint exists. Uninstall it first (kubectl delete -f install.yaml)." }}
{{- else if or (ne $release .Release.Name) (ne $namespace .Release.Namespace) }}
{{- fail (printf "Setpoint is installed in this cluster, by the release %s in the namespace %s. A second one would run the same controllers: upgrade that release, or uninstall it first." $release $namespace) }}
{{- end }}
{{- end }}
`
