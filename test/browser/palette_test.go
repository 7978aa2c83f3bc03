package browser

import (
	"fmt"
	"testing"
)

// TestPalette goes to an object with the keyboard alone, from any page. Without scripts the same results are a page.
func TestPalette(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	c.apply("{apiVersion: kool.karmalabs.local/v1, kind: Guitar, metadata: {name: palette-guitar, namespace: " + ns + "}, spec: {brand: Gibson}}")
	p := newPage(t, sharedUI())
	p.open("/resources")
	p.see("Guitar")
	p.tabTo("Search")
	p.press("Enter")
	p.seeIn("[data-palette]", "Overview", "Resources")
	p.audit()
	p.do("type", insert(ns+"/palette"))
	p.seeIn("[data-palette]", ns+"/palette-guitar")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.audit()
	p.resize(desktopWidth, desktopHeight)

	// The first result is selected and announced, and Enter goes there.
	selected := func(want string) {
		t.Helper()
		p.until("select "+want, func() error {
			got, err := evaluate[string](p, `(() => {
				const input = document.activeElement;
				const option = document.getElementById(input.getAttribute("aria-activedescendant"));
				return input.getAttribute("role") + " " + (option ? option.getAttribute("aria-selected") + " " + option.querySelector("a").textContent.trim() : "none");
			})()`)
			if err == nil && got != "combobox "+want {
				err = fmt.Errorf("%q", got)
			}
			return err
		})
	}
	selected("true " + ns + "/palette-guitar")
	p.press("Enter")
	p.at(guitarsPath + "/" + ns + "/palette-guitar")

	// The shortcut opens it again, and a result leads to its page.
	p.press("Ctrl-K")
	p.do("type", insert("overview"))
	p.seeIn("[data-palette]", "Overview")
	// Keys of the page do nothing below the dialog.
	must[bool](p, `document.activeElement.blur() ?? true`)
	p.press("?")
	if must[bool](p, `document.querySelector("[data-keys]").open`) {
		t.Error("another dialog opens above the search")
	}
	must[bool](p, `document.getElementById("palette-input").focus() ?? true`)
	p.press("Escape")
	p.notSee("Search by name")
	p.open("/palette?q=" + ns + "/palette")
	p.see(ns + "/palette-guitar")
	p.audit()
	p.follow(guitarsPath + "/" + ns + "/palette-guitar")
	p.at(guitarsPath + "/" + ns + "/palette-guitar")
}
