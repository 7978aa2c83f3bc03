package browser

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestOutage stops the API server during an edit. The page says so and recovers, and the input
// is kept.
func TestOutage(t *testing.T) {
	t.Parallel()
	address := valueOf(freeAddress())(t)
	c := bootCluster(t, "--dashboard-address", address, "../../examples/immortalcontainer")
	ui := "http://" + address
	printed := printedDashboard(t, filepath.Join(filepath.Dir(c.data), "dev.log"))
	list := "/resources/immortalcontainers.immortalcontainers.flugel.it"
	object := list + "/default/example"
	until(t, "have the example", 3*time.Minute, func() error {
		_, err := c.try("", "get", "immortalcontainers.immortalcontainers.flugel.it", "example")
		return err
	})
	p, editor := newPage(t, ui), newPage(t, ui)
	for _, each := range []*page{p, editor} {
		each.errors.allow("status 5|status of 5|Error Code 5|request failed|ERR_")
		each.enter(printed)
	}
	p.open(object)
	p.see("example-immortalpod")
	editor.open(object + "/edit")
	editor.fill("YAML", replaced(t, editor.valueOf("YAML"), "nginx:1.27", "nginx:1.28"))

	// First it hangs, then it is killed and dev restarts it.
	server := c.component("kube-apiserver")
	_ = server.Signal(syscall.SIGSTOP)
	p.see("API server unreachable")
	_ = server.Kill()
	until(t, "be back", 3*time.Minute, func() error {
		_, err := c.try("", "get", "--raw", "/readyz")
		return err
	})
	p.notSee("unreachable")
	p.see("example-immortalpod")

	replaced(t, editor.valueOf("YAML"), "nginx:1.28", "") // What was entered is kept.
	editor.click("Save")
	editor.at(object)
	p.see("nginx:1.28")
}
