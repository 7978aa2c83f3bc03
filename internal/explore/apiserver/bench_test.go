package apiserver_test

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// BenchmarkWrites measures writes that the server has seen before, as most of a search, and new ones.
func BenchmarkWrites(b *testing.B) {
	pod := `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {containers: [{name: web, image: nginx, ports: [{containerPort: 80}]}]}}`
	widget := `{apiVersion: example.com/v1, kind: Widget, metadata: {name: web, namespace: shop}, spec: {size: 2, parts: [{name: one}, {name: two}]}}`
	for _, known := range []bool{true, false} {
		for name, request := range map[string]func(w *world, i int) apiserver.Request{
			"create": func(w *world, i int) apiserver.Request {
				o := apiservertest.Parse(b, pod)
				return apiserver.Request{Method: http.MethodPost, Resource: pods, Namespace: "shop", Body: withLabel(o.JSON(), i)}
			},
			"patch": func(_ *world, i int) apiserver.Request {
				return apiserver.Request{Method: http.MethodPatch, Type: types.MergePatchType, Resource: widgets, Namespace: "shop", Name: "web",
					Body: fmt.Appendf(nil, `{"metadata":{"labels":{"i":"%d"}}}`, i)}
			},
			"apply": func(_ *world, i int) apiserver.Request {
				return apiserver.Request{Method: http.MethodPatch, Type: types.ApplyYAMLPatchType, Resource: widgets, Namespace: "shop", Name: "web",
					Body: withLabel(apiservertest.Parse(b, widget).JSON(), i)}
			},
		} {
			b.Run(fmt.Sprintf("%s/known=%t", name, known), func(b *testing.B) {
				w := newWorld(b)
				w.create(widgets, widget)
				requests := make([]apiserver.Request, 1000)
				for i := range requests {
					requests[i] = request(w, i)
				}
				manager, i := "test", 0
				for b.Loop() {
					i++
					at := 0
					if !known {
						at = i
					}
					r := requests[at%len(requests)]
					if !known {
						r.Body = append([]byte(nil), r.Body...)
						manager = fmt.Sprint("test-", i)
					}
					if _, _, err := w.server.Send(w.state, manager, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// withLabel makes bodies differ.
func withLabel(body []byte, i int) []byte {
	o, err := object.Parse(body)
	if err != nil {
		panic(err)
	}
	labeled, err := o.With(fmt.Appendf(nil, `"%d"`, i), "metadata", "labels", "i")
	if err != nil {
		panic(err)
	}
	return labeled.JSON()
}
