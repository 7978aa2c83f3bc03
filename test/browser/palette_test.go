package browser

import (
	"fmt"
	"testing"
)

// TestPalette goes to an object and pauses it with the keyboard alone, from any page. Without
// scripts the same results are a page.
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

	// The first result is selected and announced; the arrows choose another one.
	selected := func(want string) {
		t.Helper()
		p.until("select "+want, func() error {
			got, err := evaluate[string](p, `(() => {
				const input = document.activeElement;
				const option = document.getElementById(input.getAttribute("aria-activedescendant"));
				return input.getAttribute("role") + " " + option?.getAttribute("aria-selected") + " " + (option?.querySelector("a, button")?.textContent.trim() ?? "");
			})()`)
			if err == nil && got != "combobox true "+want {
				err = fmt.Errorf("%q", got)
			}
			return err
		})
	}
	selected("Reconcile now: " + ns + "/palette-guitar")
	p.press("ArrowDown")
	selected("Pause: " + ns + "/palette-guitar")
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
	p.seeIn("[data-palette]", "Resume: "+ns+"/palette-guitar")
	p.press("Escape")
	p.notSee("open or do")
	p.open("/palette?q=" + ns + "/palette")
	p.see(ns + "/palette-guitar")
	p.audit()
	p.follow(guitarsPath + "/" + ns + "/palette-guitar")
	p.at(guitarsPath + "/" + ns + "/palette-guitar")
}
