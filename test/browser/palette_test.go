package browser

import (
	"fmt"
	"testing"
)

// TestPalette goes to an object and pauses it with the keyboard alone, from any page. Enter writes
// nothing that was not chosen. Without scripts the same results are a page.
func TestPalette(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	c.apply("{apiVersion: kool.karmalabs.local/v1, kind: Guitar, metadata: {name: palette-guitar, namespace: " + ns + "}, spec: {brand: Gibson}}")
	p := newPage(t, sharedUI())
	p.open("/resources")
	p.see("Guitar")
	p.tabTo("Search pages and actions")
	p.press("Enter")
	p.seeIn("[data-palette]", "Overview", "Resources")
	p.audit()
	p.do("type", insert(ns+"/palette"))
	p.seeIn("[data-palette]", ns+"/palette-guitar", "Reconcile now: "+ns+"/palette-guitar")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.audit()
	p.resize(desktopWidth, desktopHeight)

	// The first result is selected and announced unless it writes; the arrows choose another one.
	selected := func(want string) {
		t.Helper()
		p.until("select "+want, func() error {
			got, err := evaluate[string](p, `(() => {
				const input = document.activeElement;
				const option = document.getElementById(input.getAttribute("aria-activedescendant"));
				return input.getAttribute("role") + " " + (option ? option.getAttribute("aria-selected") + " " + option.querySelector("a, button").textContent.trim() : "none");
			})()`)
			if err == nil && got != "combobox "+want {
				err = fmt.Errorf("%q", got)
			}
			return err
		})
	}
	selected("true " + ns + "/palette-guitar")
	p.press("ArrowDown")
	selected("true Reconcile now: " + ns + "/palette-guitar")
	p.do("type", insert(" pause"))
	p.seeIn("[data-palette]", "Actions", "Pause: "+ns+"/palette-guitar")
	p.notSeeIn("[data-palette]", "Reconcile now")
	selected("none")
	must[bool](p, `document.addEventListener("htmx:beforeRequest", (event) => {
		if (event.detail.requestConfig.verb === "post") document.documentElement.dataset.posted = "yes";
	}) ?? true`)
	p.press("Enter")
	p.press("ArrowDown")
	selected("true Pause: " + ns + "/palette-guitar")
	if posted := must[string](p, `document.documentElement.dataset.posted ?? "no"`); posted != "no" {
		t.Error("Enter acts before an action is chosen")
	}
	p.press("Enter")
	p.see("Paused. The controller writes nothing") // For five seconds.
	p.notSee("open or do")
	until(t, "pause it", waitTimeout, func() error {
		got, err := c.try("", "get", "guitars.kool.karmalabs.local", "palette-guitar", "-n", ns, "-o", `jsonpath={.metadata.annotations.setpoint\.dev/paused}`)
		if err == nil && got != "true" {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})

	// The shortcut opens it again, and a result leads to its page.
	p.at("/resources")
	p.press("Ctrl-K")
	p.do("type", insert(ns+"/palette"))
	p.seeIn("[data-palette]", "Resume: "+ns+"/palette-guitar")
	// Keys of the page do nothing below the dialog.
	must[bool](p, `document.activeElement.blur() ?? true`)
	p.press("?")
	if must[bool](p, `document.querySelector("[data-keys]").open`) {
		t.Error("another dialog opens above the search")
	}
	must[bool](p, `document.getElementById("palette-input").focus() ?? true`)
	p.press("Escape")
	p.notSee("open or do")
	p.open("/palette?q=" + ns + "/palette")
	p.see(ns + "/palette-guitar")
	p.audit()
	p.follow(guitarsPath + "/" + ns + "/palette-guitar")
	p.at(guitarsPath + "/" + ns + "/palette-guitar")
}
