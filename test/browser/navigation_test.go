package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestCrossSiteRequests posts from another site: nothing is written.
func TestCrossSiteRequests(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	c.apply("{apiVersion: kool.karmalabs.local/v1, kind: Guitar, metadata: {name: wanted, namespace: " + ns + "}, spec: {brand: Gibson}}")
	target := sharedUI() + guitarsPath + "/" + ns + "/wanted/delete"
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>Win a guitar</title><link rel="icon" href="data:,">
			<main><form method="post" action="` + target + `"><button>Win</button></form></main>`))
	}))
	defer evil.Close()
	p := newPage(t, evil.URL)
	p.errors.allow("another host: " + sharedUI())
	p.errors.allow("status 403|status of 403")
	p.enter(sessionUI())
	p.open("/")
	p.click("Win")
	p.see("Forbidden")
	c.kubectl("get", "guitars.kool.karmalabs.local", "wanted", "-n", ns)

	response, err := http.PostForm(target, url.Values{}) //nolint:gosec // It is this dashboard.
	succeed(t, err)
	response.Body.Close()
	c.kubectl("get", "guitars.kool.karmalabs.local", "wanted", "-n", ns)
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'"} {
		if got := response.Header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// TestAddresses follows links and the back button.
func TestAddresses(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	object := guitarsPath + "/default/stratocaster"
	p.open("/")
	p.click("Resources")
	p.at("/resources")
	p.follow(guitarsPath)
	p.at(guitarsPath)
	p.follow(object)
	p.at(object)
	p.see("stratocaster", "this is a great instrument")
	p.back()
	p.at(guitarsPath)
	p.see("les-paul", "homemade")
	p.back()
	p.at("/resources")
	p.back()
	p.at("/")

	// Filters are part of the URL.
	p.open(guitarsPath)
	p.fill("Name", "paul")
	p.see("les-paul")
	p.notSeeIn("main table", "homemade")
	filtered := must[string](p, "location.pathname + location.search")
	if !strings.Contains(filtered, "paul") {
		t.Errorf("the filter is not in the address %s", filtered)
	}
	other := newPage(t, sharedUI())
	other.open(filtered)
	other.see("les-paul")
	other.notSeeIn("main table", "homemade")
	for _, path := range []string{object, object + "/timeline", object + "/yaml", object + "/edit", object + "/delete", guitarsPath + "/new"} {
		other.open(path)
		other.at(path)
		other.see("Guitar")
	}
	other.errors.allow("status 404|status of 404")
	other.open(guitarsPath + "/default/never-was")
	other.see("Not found")
	other.audit()
	other.open("/no/such/page")
	other.see("Not found")
}

// TestPhone checks that every page fits on a phone in light and dark mode.
func TestPhone(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	p.resize(phoneWidth, phoneHeight)
	object := guitarsPath + "/default/stratocaster"
	for _, path := range []string{
		"/", "/controllers/guitar/guitar~guitar", "/resources", guitarsPath, guitarsPath + "/new", object, object + "/timeline", object + "/yaml", object + "/edit", object + "/delete",
		"/resources/immortalcontainers.immortalcontainers.flugel.it/default/example",
	} {
		p.open(path)
		p.audit()
	}
}

// TestKeyboard works without a mouse.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	p.open("/")
	p.has("link", "Resources")
	p.tabTo("Skip to content")
	p.tabTo("Resources")
	p.press("Enter")
	p.at("/resources")
	p.open(guitarsPath)
	p.see("stratocaster", "homemade")
	p.press("/")
	p.do("type", insert("strato"))
	p.see("stratocaster")
	p.notSeeIn("main table", "homemade")
	p.tabTo("stratocaster")
	p.press("Enter")
	p.at(guitarsPath + "/default/stratocaster")
	p.tabTo("Edit")
	p.press("Enter")
	p.at(guitarsPath + "/default/stratocaster/edit")
}

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
