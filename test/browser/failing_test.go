package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestFailing shows a failing controller on the overview, the reason on the object's page, and
// fixes both from there.
func TestFailing(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	url := hook(t, func(r hookRequest) (int, any) {
		if r.Parent.Spec["size"] == float64(13) {
			return http.StatusUnprocessableEntity, `{"error": "13 is not a size"}`
		}
		child := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": r.Parent.Metadata.Name}, "data": map[string]string{"size": fmt.Sprint(r.Parent.Spec["size"])},
		}
		return http.StatusOK, map[string]any{"children": []any{child}}
	})
	// Nothing listens on this port.
	wrong := "http://127.0.0.1:9"
	c.kind(group, "Cabinet", wrong)
	c.apply(fmt.Sprintf("{apiVersion: %[1]s/v1, kind: Cabinet, metadata: {name: oak, namespace: %[2]s}, spec: {size: 3}}", group, ns))
	c.apply(fmt.Sprintf("{apiVersion: %[1]s/v1, kind: Cabinet, metadata: {name: pine, namespace: %[2]s}, spec: {size: 13}}", group, ns))

	p := newPage(t, sharedUI())
	p.open("/")
	p.see(group, "failing")
	controller := "/controllers/setpoint/compositecontroller.setpoint.dev~" + group
	p.follow(controller)
	p.at(controller)
	p.see("oak", "pine", "connection refused")
	p.audit()
	cabinets := "/resources/cabinets." + group + "/" + ns
	p.follow(cabinets + "/oak")
	p.at(cabinets + "/oak")
	p.see("127.0.0.1:9", "connection refused", "Failing")
	p.audit()

	// Fix the address in the controller's manifest.
	declared := "/resources/compositecontrollers.setpoint.dev/-/" + group
	p.click("Edit the controller’s hook")
	p.at(declared + "/edit")
	manifest := p.valueOf("YAML")
	if !strings.Contains(manifest, wrong) {
		t.Fatalf("the YAML does not hold the address: %s", manifest)
	}
	p.fill("YAML", strings.ReplaceAll(manifest, wrong, url))
	p.click("Save")
	p.at(declared)
	p.open(controller)
	p.seeIn("#row-Cabinet-"+ns+"-oak", "Synced")
	p.see("13 is not a size")

	// The other object is invalid itself.
	p.follow(cabinets + "/pine")
	p.see("13 is not a size", "422")
	p.follow(cabinets + "/pine/edit")
	p.at(cabinets + "/pine/edit")
	p.fill("YAML", strings.ReplaceAll(p.valueOf("YAML"), "size: 13", "size: 14"))
	p.click("Save")
	p.at(cabinets + "/pine")
	p.seeIn("section[aria-label^='Managed by']", "Synced")
	p.open("/")
	p.see(group)
	until(t, "have the child", waitTimeout, func() error {
		_, err := c.try("", "get", "configmap", "pine", "-n", ns)
		return err
	})
}
