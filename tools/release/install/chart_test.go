package install

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const version = "1.2.3"

func readCRDs(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../../config/crd/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("CRDs: %v, %v", paths, err)
	}
	crds := map[string][]byte{}
	for _, path := range paths {
		data := must(os.ReadFile(path))(t)
		crds[filepath.Base(path)] = data
	}
	return crds
}

// The chart with its defaults and the plain manifests are the same objects.
func TestChartEqualsManifests(t *testing.T) {
	crds := readCRDs(t)
	files := Manifests(version, crds)
	want := objectsOf(t, string(files["install.yaml"])+"---\n"+string(files["crds.yaml"]))
	delete(want, "Namespace/"+namespace)
	rendered := must(render(t, crds, nil))(t)
	got := objectsOf(t, rendered)
	for _, o := range got {
		annotations, _ := o["metadata"].(tree)["annotations"].(tree)
		delete(annotations, "helm.sh/resource-policy")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-manifests +chart:\n%s", diff)
	}
}

func TestValuesTakeEffect(t *testing.T) {
	for _, test := range []struct {
		values  string
		present []string
		absent  []string
	}{
		{"replicas: 3", []string{"replicas: 3"}, nil},
		{"image: {repository: registry.example.com/setpoint, tag: v9}", []string{`image: "registry.example.com/setpoint:v9"`}, nil},
		{"imagePullSecrets: [{name: registry}]", []string{`imagePullSecrets: [{"name":"registry"}]`}, nil},
		{"podLabels: {team: a, app.kubernetes.io/name: my-own-name}", []string{`"team": "a"`}, []string{"my-own-name"}},
		{"extraArgs: [--workers=16]", []string{`- "--workers=16"`}, nil},
		{"extraEnv: [{name: GOMEMLIMIT, value: 230MiB}]", []string{`- {"name":"GOMEMLIMIT","value":"230MiB"}`}, nil},
		{"traces: {endpoint: 'http://collector:4318', samplingRatio: '0.05', annotations: true}", []string{
			"name: OTEL_EXPORTER_OTLP_ENDPOINT\n          value: \"http://collector:4318\"", "name: OTEL_TRACES_SAMPLER_ARG\n          value: \"0.05\"", "--trace-annotations",
		}, nil},
		{"traces: {}", nil, []string{"OTEL_", "--trace-annotations"}},
		{"podDisruptionBudget: {enabled: false}", nil, []string{"PodDisruptionBudget"}},
		{"networkPolicy: {webhookFrom: [{ipBlock: {cidr: 10.0.0.0/28}}]}", []string{`from: [{"ipBlock":{"cidr":"10.0.0.0/28"}}]`}, nil},
		{"networkPolicy: {enabled: false}", nil, []string{"NetworkPolicy"}},
		{"crds: {enabled: false}", nil, []string{"CustomResourceDefinition"}},
		{"log: {level: debug}", []string{`"--log-level=debug"`}, nil},
		{"tolerations: [{operator: Exists}]", []string{`tolerations: [{"operator":"Exists"}]`}, nil},
		{"affinity: {nodeAffinity: {}}", []string{`affinity: {"nodeAffinity":{}}`}, nil},
		{"resources: {limits: {memory: 1Gi}}", []string{`resources: {"limits":{"memory":"1Gi"}`}, nil},
		{"webhook: {certificateSecret: own}", []string{`- "--admission-certificate-secret=own"`, "resourceNames:\n  - \"own\""}, nil},
		{"dashboard: {enabled: true}", []string{"--dashboard-address=:8443", "name: setpoint-dashboard", "port: 8443"}, []string{"volumes", "tls-cert-file"}},
		{"dashboard: {enabled: true, tlsSecret: web}", []string{`secretName: "web"`, "mountPath: /etc/setpoint/dashboard", "--dashboard-tls-key-file=/etc/setpoint/dashboard/tls.key"}, nil},
		{"dashboard: {tlsSecret: web}", nil, []string{"volumes:", "volumeMounts", "dashboard-tls"}},
		{"serviceMonitor: {enabled: true, labels: {release: prometheus}}", []string{"kind: ServiceMonitor", `"release": "prometheus"`, `interval: "30s"`}, nil},
		{"serviceMonitor: {enabled: true, scheme: https, authorization: {credentials: {name: a, key: b}}, tlsConfig: {insecureSkipVerify: true}}",
			[]string{`scheme: "https"`, `authorization: {"credentials":{"key":"b","name":"a"}}`, `tlsConfig: {"insecureSkipVerify":true}`}, nil},
		{"serviceMonitor: {enabled: true}", nil, []string{"scheme:", "tlsConfig", "kind: PrometheusRule", "grafana_dashboard"}},
		{"prometheusRule: {enabled: true, labels: {release: prometheus}}", []string{"kind: PrometheusRule", `"release": "prometheus"`, `{{ $labels.controller }}`}, nil},
		{"grafanaDashboard: {enabled: true, annotations: {grafana_folder: Operators}, labels: {grafana_dashboard: not-this}}",
			[]string{`grafana_dashboard: "1"`, `annotations: {"grafana_folder":"Operators"}`, `{{controller}}`}, []string{"not-this"}},
		{"networkPolicy: {metricsFrom: [{podSelector: {}}]}", []string{`from: [{"podSelector":{}}]`}, nil},
		{"{namespaces: [shop, bar], crds: {enabled: false}}", []string{`- "--namespaces=shop,bar"`, `namespace: "shop"`, `namespace: "bar"`, "namespace: default"},
			[]string{"kind: ClusterRoleBinding\nmetadata:\n  name: setpoint\n", "statefulsets"}},
		{"topologySpreadConstraints: []", []string{"topologySpreadConstraints: []"}, nil},
	} {
		t.Run(test.values, func(t *testing.T) {
			rendered := must(render(t, readCRDs(t), parse(t, test.values)))(t)
			objectsOf(t, rendered)
			for _, text := range test.present {
				if !strings.Contains(rendered, text) {
					t.Errorf("no %s in\n%s", text, rendered)
				}
			}
			for _, text := range test.absent {
				if strings.Contains(rendered, text) {
					t.Errorf("%s is rendered", text)
				}
			}
		})
	}
}

// Wrong values are refused with their field, before anything is installed.
func TestWrongValuesAreRefused(t *testing.T) {
	for values, field := range map[string]string{
		"replicas: -1":                       "/replicas",
		"replicas: two":                      "/replicas",
		"image: {repository: ''}":            "/image/repository",
		"image: {pullPolicy: Sometimes}":     "/image/pullPolicy",
		"log: {level: loud}":                 "/log/level",
		"extraArgs: --workers=1":             "/extraArgs",
		"traces: {endpoint: collector:4318}": "/traces/endpoint",
		"traces: {samplingRatio: '5'}":       "/traces/samplingRatio",
		"namespaces: shop":                   "/namespaces",
		"namespaces: [Shop]":                 "/namespaces/0",
		"namespaces: [shop, shop]":           "/namespaces",
		"replcias: 3":                        "replcias",
		"webhook: {certificateSecret: A}":    "/webhook/certificateSecret",
		"dashboard: {enabled: yes please}":   "/dashboard/enabled",
		"dashboard: {tlsSecret: a b}":        "/dashboard/tlsSecret",
		"serviceMonitor: {interval: 30}":     "/serviceMonitor/interval",
		"serviceMonitor: {scheme: ftp}":      "/serviceMonitor/scheme",
		"prometheusRule: {enabled: maybe}":   "/prometheusRule/enabled",
		"grafanaDashboard: {labels: {a: 1}}": "/grafanaDashboard/labels/a",
		"resources: 1Gi":                     "/resources",
		"affinity: []":                       "/affinity",
		"tolerations: {}":                    "/tolerations",
		"imagePullSecrets: [registry]":       "/imagePullSecrets/0",
		"podLabels: {a: 1}":                  "/podLabels/a",
	} {
		if _, err := render(t, readCRDs(t), parse(t, values)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error that names %s", values, err, field)
		}
	}
}

// A second installation in a cluster is refused, with the name of the first. An upgrade is not.
func TestChartIsInstalledOnce(t *testing.T) {
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/setpoint"
	installed := func(annotations string) string {
		return `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "setpoint", "annotations": ` + annotations + `}}`
	}
	for name, c := range map[string]struct{ role, error string }{
		"first":         {"", ""},
		"own release":   {installed(`{"meta.helm.sh/release-name": "setpoint", "meta.helm.sh/release-namespace": "setpoint-system"}`), ""},
		"other release": {installed(`{"meta.helm.sh/release-name": "setpoint", "meta.helm.sh/release-namespace": "ops"}`), "by the release setpoint in the namespace ops"},
		"without Helm":  {installed(`{}`), "without Helm"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path == path.Dir(path.Dir(role)):
					fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "rbac.authorization.k8s.io/v1", "resources": [{"name": "clusterroles", "kind": "ClusterRole", "namespaced": false, "verbs": ["get"]}]}`)
				case r.URL.Path == role && c.role != "":
					fmt.Fprint(w, c.role)
				default:
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
				}
			}))
			defer server.Close()
			chart, values, err := loadChart(t, readCRDs(t), nil)
			succeed(t, err)
			_, err = engine.RenderWithClient(chart, values, &rest.Config{Host: server.URL})
			if (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
				t.Errorf("%v, want %q", err, c.error)
			}
		})
	}
}

func TestChartHasNoLint(t *testing.T) {
	chart := must(Chart(version, readCRDs(t)))(t)
	folder := filepath.Join(t.TempDir(), "setpoint")
	for name, data := range chart {
		path := filepath.Join(folder, name)
		succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		succeed(t, os.WriteFile(path, data, 0o600))
	}
	for _, message := range lint.RunAll(folder, nil, namespace).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

// render returns all templates with values, as helm template does.
func render(t *testing.T, crds map[string][]byte, values tree) (string, error) {
	t.Helper()
	chart, all, err := loadChart(t, crds, values)
	if err != nil {
		return "", err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(rendered, func(file, _ string) bool { return !strings.HasSuffix(file, ".yaml") })
	var documents []string
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		documents = append(documents, rendered[file])
	}
	return strings.Join(documents, "\n---\n"), nil
}

// loadChart returns the chart and all values of a release.
func loadChart(t *testing.T, crds map[string][]byte, values tree) (*v2.Chart, common.Values, error) {
	t.Helper()
	files := must(Chart(version, crds))(t)
	var buffered []*archive.BufferedFile
	for name, data := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: data})
	}
	chart := must(loader.LoadFiles(buffered))(t)
	all, err := chartutil.ToRenderValues(chart, values, common.ReleaseOptions{Name: "setpoint", Namespace: namespace}, common.DefaultCapabilities)
	if err != nil {
		return nil, nil, err
	}
	all["Release"].(map[string]any)["Service"] = name // The plain manifests name themselves.
	return chart, all, nil
}

// objectsOf reads YAML documents by kind and name.
func objectsOf(t *testing.T, documents string) map[string]tree {
	t.Helper()
	all := map[string]tree{}
	for document := range strings.SplitSeq(documents, "\n---\n") {
		if strings.Trim(document, "-\n ") == "" {
			continue
		}
		o := parse(t, document)
		metadata := o["metadata"].(tree)
		key := o["kind"].(string) + "/" + metadata["name"].(string)
		if namespace, ok := metadata["namespace"].(string); ok {
			key = namespace + "/" + key
		}
		if all[key] != nil {
			t.Errorf("%s twice", key)
		}
		all[key] = o
	}
	return all
}

func parse(t *testing.T, document string) tree {
	t.Helper()
	var o tree
	if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	return o
}

// must takes the results of a call, and ends the test with the error: must(os.ReadFile(path))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return value
	}
}

// succeed ends the test with an error, if there is one.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
