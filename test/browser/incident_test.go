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
