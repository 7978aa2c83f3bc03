package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// allowedReviews is more than a page of reviews.
const allowedReviews = 120

// TestReviews finds the denial among many reviews, opens it, and goes to its object and back.
func TestReviews(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	url := hook(t, func(r hookRequest) (int, any) {
		switch {
		case r.Webhook == "owner":
			return http.StatusOK, map[string]any{"allowed": true, "patch": map[string]any{"metadata": map[string]any{"labels": map[string]any{"owner": "none"}}}}
		case strings.HasPrefix(r.Name, "bad"):
			return http.StatusOK, map[string]any{"allowed": false, "message": "names must not begin with bad: choose another one"}
		}
		return http.StatusOK, map[string]any{"allowed": true}
	})
	controller := "/controllers/setpoint/admissioncontroller.setpoint.dev~" + ns
	c.apply(fmt.Sprintf(reviewManifest, ns, url))
	t.Cleanup(func() { _, _ = c.try("", "delete", "admissioncontroller.setpoint.dev", ns, "--wait=false") })
	p := newPage(t, sharedUI()) // It is closed before the controller that it shows is deleted.
	p.open("/")
	p.follow(controller)
	p.at(controller)
	p.see("No reviews yet", "before it stores objects that its rules select", "Ready")
	p.audit()
	c.kubectl("wait", "--for=condition=Ready", "admissioncontroller.setpoint.dev/"+ns, "--timeout="+waitTimeout.String())

	// Reviews appear without a reload.
	var labels strings.Builder
	for i := range allowedReviews / 2 {
		fmt.Fprintf(&labels, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: good-%03d, namespace: %s}}\n", i, ns)
	}
	if out, err := c.try("", "create", "configmap", "bad", "-n", ns); err == nil || !strings.Contains(out+err.Error(), "must not begin with bad") {
		t.Fatalf("%s, %v", out, err)
	}
	p.see("bad", "names must not begin with bad", "changed metadata.labels", "denied")
	c.apply(labels.String())
	p.see("good-059", "1–100 of 122")
	p.audit()
	p.click("Next")
	p.see("101–122 of 122", "names must not begin with bad")

	// A filter starts at the first page.
	p.click("Denied 1")
	p.at(controller)
	p.see("names must not begin with bad")
	p.notSeeIn("main table", "good-")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.audit()
	p.resize(desktopWidth, desktopHeight)
	p.fill("User", "absent")
	p.see("No matches", "None of 122 reviews matches the filter.")
	p.audit()
	p.back()
	p.see("names must not begin with bad")
	p.clickIn("main table", "create")
	p.see("Creation denied", "ConfigMap bad", "system:masters", "names must not begin with bad: choose another one", "check of admissioncontroller.setpoint.dev/"+ns)
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.audit()
	p.resize(desktopWidth, desktopHeight)
	p.click("Request")
	p.see(`"operation": "CREATE"`)

	// The object was never stored. Its page leads to its reviews.
	object := "/resources/configmaps/" + ns + "/bad"
	p.follow(object)
	p.at(object)
	p.see("Not stored: an admission webhook denied its creation", "Creation denied")
	p.audit()
	p.clickIn("#object", "admissioncontroller.setpoint.dev/"+ns)
	p.at(controller + "/reviews")
	p.see("Of ConfigMap bad only.", "mutated")
	p.notSeeIn("main table", "good-")
	p.audit()
	p.click("Show all")
	p.seeIn("main table", "good-")
}

const reviewManifest = `apiVersion: setpoint.dev/v1alpha1
kind: AdmissionController
metadata: {name: %[1]s}
spec:
  webhooks:
  - name: owner
    type: Mutate
    rules: [{apiVersion: v1, resource: configmaps, operations: [CREATE]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    matchConditions: [{name: users, expression: "request.userInfo.username != 'system:serviceaccount:kube-system:root-ca-cert-publisher'"}]
    webhook: {url: "%[2]s"}
  - name: check
    type: Validate
    rules: [{apiVersion: v1, resource: configmaps, operations: [CREATE]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    webhook: {url: "%[2]s"}
`
