package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hook serves a function as a hook and returns its URL.
func hook(t *testing.T, response func(request hookRequest) (status int, response any)) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request hookRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		status, response := response(request)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if text, ok := response.(string); ok {
			fmt.Fprint(w, text)
			return
		}
		_ = json.NewEncoder(w).Encode(response)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// hookRequest is the part of a request that these tests use.
type hookRequest struct {
	Parent struct {
		Metadata struct{ Name, Namespace string }
		Spec     map[string]any
	}
	// Webhook and Name are those of a review.
	Webhook, Name string
}

// kind creates a CRD NAME.test/v1 with any spec and status, and a controller for it. The
// controller is deleted with the test, like its hook; objects stay, since the control plane is
// temporary.
func (c *cluster) kind(group, kind, hook string) {
	c.t.Helper()
	c.kindOf(group, kind, "apiVersion: v1, resource: configmaps", hook)
}

// kindOf is kind with children of another kind than ConfigMap.
func (c *cluster) kindOf(group, kind, children, hook string) {
	c.t.Helper()
	plural := strings.ToLower(kind) + "s"
	c.apply(fmt.Sprintf(crdManifest, plural, group, kind))
	c.established(plural + "." + group)
	c.apply(fmt.Sprintf(controllerManifest, group, plural, hook, children))
	c.t.Cleanup(func() {
		_, _ = c.try("", "delete", "compositecontroller.setpoint.dev", group, "--wait=false")
	})
}

const crdManifest = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const controllerManifest = `apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: %[1]s}
spec:
  parentResource: {apiVersion: %[1]s/v1, resource: %[2]s}
  childResources:
  - {%[4]s, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks: {sync: {webhook: {url: "%[3]s"}}}
`
