package browser

import (
	"testing"
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
