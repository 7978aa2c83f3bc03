package browser

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestTwoBrowsers checks that one user sees the changes of another without reloading.
func TestTwoBrowsers(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	ann, bob := newPage(t, sharedUI()), newPage(t, sharedUI())
	list := guitarsPath + "?namespace=" + ns
	bob.open(list)
	bob.notSee("jazzmaster")

	ann.open(guitarsPath + "/new?namespace=" + ns)
	ann.fill("name", "jazzmaster")
	ann.fill("brand", "Gretsch")
	ann.click("Create")
	bob.see("jazzmaster", "Gretsch", "this one is decent, but there are better ones")

	object := guitarsPath + "/" + ns + "/jazzmaster"
	bob.follow(object)
	bob.at(object)
	ann.open(object + "/edit")
	ann.fill("YAML", replaced(t, ann.valueOf("YAML"), "Gretsch", "Martin", "review: true", "review: false"))
	ann.click("Save")
	bob.see("this is a great instrument")

	bob.open(object + "/delete")
	bob.click("Delete jazzmaster")
	bob.at(guitarsPath)
	ann.see("deleted")
	ann.open(list)
	ann.notSee("jazzmaster")
}

// TestPendingUpdate checks that changes during a refresh cause one more refresh, after a rest.
func TestPendingUpdate(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	p.open(guitarsPath)
	p.see("stratocaster")
	called := must[int](p, `(async () => {
		while (document.querySelector(".htmx-request")) await new Promise(done => setTimeout(done, 20));
		const {id} = document.querySelector('[hx-trigger~="live"]');
		let asked = 0;
		document.addEventListener("htmx:beforeRequest", e => { if (e.detail.target.id === id) asked++ });
		const ended = new Promise(done => document.addEventListener("htmx:afterRequest", e => { if (e.detail.target.id === id) done() }));
		for (let change = 0; change < 3; change++) htmx.trigger(document.getElementById(id), "live");
		await ended;
		const first = asked;
		for (const end = Date.now() + 90000; asked < 2 && Date.now() < end;) await new Promise(done => setTimeout(done, 20));
		return 10 * first + asked;
	})()`)
	if called != 12 {
		t.Errorf("the page asked %d times, and then %d, not 1 and 2", called/10, called%10)
	}
}

// TestPauseAndResume clicks the same button twice. The second click undoes the first, since the
// focused button changes too. Fault U2.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	c.apply("{apiVersion: kool.karmalabs.local/v1, kind: Guitar, metadata: {name: quiet, namespace: " + ns + "}, spec: {brand: Gibson}}")
	paused := func(want string) {
		t.Helper()
		until(t, "be paused: "+want, waitTimeout, func() error {
			got, err := c.try("", "get", "guitars.kool.karmalabs.local", "quiet", "-n", ns, "-o", `jsonpath={.metadata.annotations.setpoint\.dev/paused}`)
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	p := newPage(t, sharedUI())
	p.open(guitarsPath + "/" + ns + "/quiet")
	p.click("Pause")
	paused("true")
	p.until("have the focused button say Resume", func() error {
		said, err := evaluate[string](p, "document.activeElement?.textContent.trim() + ' ' + document.activeElement?.form?.elements.do?.value")
		if err == nil && said != "Resume resume" {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
	p.press("Enter")
	paused("")
	p.seeIn("main", "Pause")
}

// TestColumnsAreStable changes the cells of the overview: no column moves. Fault U10.
func TestColumnsAreStable(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	p.open("/")
	p.see("guitar")
	const widths = `[...document.querySelectorAll("main table.table-still th")].map(e => Math.round(e.getBoundingClientRect().width)).join(" ")`
	p.until("keep the columns", func() error {
		moved, err := evaluate[string](p, `(() => {
			const before = `+widths+`;
			for (const e of document.querySelectorAll("main .table-still tbody tr:first-child td")) e.append(" 1 234 567 890 and much more than before");
			const after = `+widths+`;
			return before === after ? "" : before + " became " + after;
		})()`)
		if err == nil && moved != "" {
			err = errors.New(moved)
		}
		return err
	})
}

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
