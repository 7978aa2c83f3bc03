package browser

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestIncident previews an edit, finds out why an object fails since, and takes the edit back.
func TestIncident(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	var down atomic.Bool
	url := hook(t, func(r hookRequest) (int, any) {
		switch {
		case down.Load():
			return http.StatusServiceUnavailable, "not now"
		case r.Parent.Spec["size"] == float64(13):
			return http.StatusUnprocessableEntity, `{"error": "13 is not a size"}`
		}
		children := []any{}
		for i := range int(r.Parent.Spec["size"].(float64)) {
			children = append(children, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": fmt.Sprint(r.Parent.Metadata.Name, "-", i)}, "data": map[string]string{"of": fmt.Sprint(r.Parent.Spec["size"])},
			})
		}
		return http.StatusOK, map[string]any{"children": children}
	})
	c.kind(group, "Shelf", url)
	c.apply(fmt.Sprintf("{apiVersion: %[1]s/v1, kind: Shelf, metadata: {name: oak, namespace: %[2]s}, spec: {size: 3}}", group, ns))

	p := newPage(t, sharedUI())
	p.errors.allow("status 40[49]|status of 40[49]|status 422|status of 422")
	shelf := "/resources/shelfs." + group + "/" + ns + "/oak"
	p.open(shelf)
	p.seeIn("section[aria-label^='Managed by']", "Synced")

	// A preview writes nothing. The hook is called with the edit.
	p.follow(shelf + "/edit")
	p.at(shelf + "/edit")
	p.fill("YAML", strings.ReplaceAll(p.valueOf("YAML"), "size: 3", "size: 1"))
	p.click("Preview")
	p.seeIn("#preview", "size: 3", "size: 1", "- ConfigMap "+ns+"/oak-2", "delete (no longer desired)", "2 to delete", "Nothing was written")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.expectNoOverflow()
	p.resize(desktopWidth, desktopHeight)
	if got := sizeOf(c, group, ns); got != 3 {
		t.Errorf("a preview has stored size %v", got)
	}

	// Another input than the previewed one is previewed first.
	p.fill("YAML", strings.ReplaceAll(p.valueOf("YAML"), "size: 1", "size: 13"))
	p.clickIn("#preview", "Save")
	p.seeIn("#preview", "Not saved: the input changed", "13 is not a size", "Nothing was written")
	p.audit()
	down.Store(true)
	p.click("Preview")
	p.seeIn("#preview", "size: 13", "503")
	down.Store(false)
	p.clickIn("#preview", "Save")
	p.at(shelf)

	// Why it fails, and since when.
	managed := "section[aria-label^='Managed by']"
	p.seeIn(managed, "Failing", "13 is not a size", "Failed", "Last good run", "First failure", "spec.size")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.expectNoOverflow()
	p.resize(desktopWidth, desktopHeight)
	p.click("Compare with last good")
	p.see("Compare two runs", `"size": 3`, `"size": 13`, "The later call has no response")
	p.audit()
	p.back()
	p.at(shelf)
	p.clickIn(managed, "Retry now")
	p.see("Reconcile requested")

	// A run can be called again elsewhere.
	p.clickIn(managed, "Request")
	p.click("Export")
	p.see("Test case", "Run (JSON)")
	p.audit()
	p.back()

	// The way back goes through the same preview.
	p.open(shelf + "/edit")
	p.fill("YAML", strings.ReplaceAll(p.valueOf("YAML"), "size: 13", "size: 3"))
	p.click("Preview")
	p.seeIn("#preview", "size: 13", "size: 3")
	p.audit()
	p.clickIn("#preview", "Save")
	p.at(shelf)
	p.seeIn(managed, "Synced")
	if got := sizeOf(c, group, ns); got != 3 {
		t.Errorf("the size is %v", got)
	}

	// Two users edit the same object; and one deletes it.
	p.open(shelf + "/edit")
	c.kubectl("patch", "shelfs."+group, "oak", "-n", ns, "--type=merge", "-p", `{"spec":{"color":"red"}}`)
	p.fill("YAML", strings.ReplaceAll(p.valueOf("YAML"), "size: 3", "size: 2"))
	p.click("Preview")
	p.see("changed while you edited it", "spec.color", "red")
	p.audit()
	c.kubectl("delete", "shelfs."+group, "oak", "-n", ns)
	p.click("Preview")
	p.see("was deleted while you edited it", "your input is kept")
}

// sizeOf returns the stored size.
func sizeOf(c *cluster, group, ns string) any {
	c.t.Helper()
	var stored struct{ Spec map[string]any }
	succeed(c.t, c.get(&stored, "shelfs."+group, "oak", "-n", ns))
	size, _ := stored.Spec["size"].(float64)
	return int(size)
}

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

const printingController = `apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: %[1]s}
spec:
  parentResource: {apiVersion: %[1]s/v1, resource: printers}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks:
    sync:
      inline:
        language: JavaScript
        source: |
          export function sync({parent}) {
            console.log("size is", parent.spec.size);
            return {children: [{apiVersion: "v1", kind: "ConfigMap", metadata: {name: parent.metadata.name}}]};
          }
`

// TestOutput reads what a hook printed, next to the run that printed it.
func TestOutput(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	c.apply(fmt.Sprintf(crdManifest, "printers", group, "Printer"))
	c.established("printers." + group)
	c.apply(fmt.Sprintf(printingController, group))
	t.Cleanup(func() { _, _ = c.try("", "delete", "compositecontroller.setpoint.dev", group, "--wait=false") })
	c.apply(fmt.Sprintf("{apiVersion: %[1]s/v1, kind: Printer, metadata: {name: a, namespace: %[2]s}, spec: {size: 42}}", group, ns))

	p := newPage(t, sharedUI())
	p.open("/resources/printers." + group + "/" + ns + "/a")
	p.see("Created ConfigMap a")
	p.click("Details of this run")
	p.see("Output", "size is 42")
	p.audit()
}
