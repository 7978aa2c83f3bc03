package apiserver_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// TestNoRequestPanics sends wrong values at every place of requests for all kinds, with and without schemas.
func TestNoRequestPanics(t *testing.T) {
	w := newWorld(t)
	values := []string{`null`, `5`, `"text"`, `[]`, `{}`, `[null]`, `{"a":null}`, `true`, `1.5e300`, `""`, `[{"name":5}]`, `{"name":{}}`}
	places := []string{`%s`, `{"metadata":%s}`, `{"spec":%s}`, `{"status":%s}`, `{"kind":%s}`, `{"apiVersion":%s}`, `{"data":%s}`,
		`{"metadata":{"name":%s}}`, `{"metadata":{"name":"a","labels":%s}}`, `{"metadata":{"name":"a","ownerReferences":%s}}`, `{"metadata":{"name":"a","managedFields":%s}}`,
		`{"metadata":{"name":"a","finalizers":%s}}`, `{"metadata":{"name":"a","uid":%s}}`, `{"metadata":{"name":"a","resourceVersion":%s}}`,
		`{"metadata":{"name":"a","generateName":%s}}`, `{"metadata":{"name":"a"},"spec":{"containers":%s}}`, `{"metadata":{"name":"a"},"spec":{"parts":%s}}`,
		`{"metadata":{"name":"a"},"spec":{"selector":%s,"template":%[1]s}}`, `{"preconditions":%s}`, `{"dryRun":%s}`, `[{"op":"add","path":"/spec","value":%s}]`,
		`{"metadata":{"name":"a"},"status":{"conditions":%s,"phase":%[1]s}}`, `{"deleteOptions":%s}`, `{"target":%s}`, `{"metadata":{"name":"a","creationTimestamp":%s}}`,
		`{"metadata":{"name":"a","deletionTimestamp":%s}}`, `{"metadata":{"name":"a","annotations":{"x":%s}}}`}
	random := rand.New(rand.NewPCG(1, 1))
	methods := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodPatch, http.MethodDelete, http.MethodGet}
	kinds := []object.Resource{configMaps, pods, deployments, budgets, namespace, widgets}
	patches := []types.PatchType{types.MergePatchType, types.JSONPatchType, types.ApplyYAMLPatchType, types.StrategicMergePatchType, "other"}
	for range 10000 {
		kind := kinds[random.IntN(len(kinds))]
		r := apiserver.Request{Method: methods[random.IntN(len(methods))], Resource: kind, Name: "a"}
		if kind.Namespaced {
			r.Namespace = "shop"
		}
		body := fmt.Sprintf(places[random.IntN(len(places))], values[random.IntN(len(values))])
		if random.IntN(2) == 0 && body[0] == '{' {
			body = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, kind.APIVersion(), kind.Kind) + body[1:]
		}
		r.Body = []byte(body)
		switch r.Method {
		case http.MethodPost:
			r.Name = ""
			if random.IntN(4) == 0 {
				r.Name, r.Subresource = "a", []string{"eviction", "binding", "status"}[random.IntN(3)]
			}
		case http.MethodPatch:
			r.Type = patches[random.IntN(len(patches))]
			fallthrough
		case http.MethodPut:
			r.Subresource = []string{"", "", "status", "finalize"}[random.IntN(4)]
		}
		_, _ = w.send("test", r)
		for range random.IntN(2) {
			if changes := w.server.Collect(w.state); len(changes) > 0 {
				w.state = changes[random.IntN(len(changes))].State
			}
		}
	}
}
