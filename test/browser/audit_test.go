package browser

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/audit.js
var auditScript string

// audit checks the accessibility of the page in light and dark mode.
func (p *page) audit() {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.until("be usable in "+scheme, func() error {
			found, err := evaluate[[]string](p, auditScript)
			if err == nil && len(found) > 0 {
				err = errors.New("\n" + cut(strings.Join(found, "\n")))
			}
			return err
		})
	}
	p.scheme("light")
	p.expectNoOverflow()
}

// expectNoOverflow checks that nothing scrolls sideways and that click targets are at least 24
// pixels. Fault U10.
func (p *page) expectNoOverflow() {
	p.t.Helper()
	p.until("be easy to hit, and to read", func() error {
		found, err := evaluate[[]string](p, fitsScript)
		if err == nil && len(found) > 0 {
			err = errors.New("\n" + cut(strings.Join(found, "\n")))
		}
		return err
	})
	p.until("fit into the window", func() error {
		wide, err := evaluate[[]string](p, `(() => {
			const room = document.documentElement.clientWidth;
			if (document.scrollingElement.scrollWidth <= room) return [];
			return [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > room + 1)
				.slice(0, 5).map(e => e.cloneNode(false).outerHTML.slice(0, 200)).concat("the page itself");
		})()`)
		if err == nil && len(wide) > 0 {
			err = fmt.Errorf("too wide:\n%s", strings.Join(wide, "\n"))
		}
		return err
	})
}

// fitsScript finds tables that are wider than their frames, strips with a vertical scrollbar, legends that overlap what
// follows, and small click targets.
const fitsScript = `(() => {
	const found = [];
	for (const e of document.querySelectorAll(".table-frame")) {
		if (e.scrollWidth > e.clientWidth + 1) found.push("a table of " + e.scrollWidth + " pixels in a frame of " + e.clientWidth + ": " + e.textContent.trim().replace(/\s+/g, " ").slice(0, 80));
	}
	for (const e of document.querySelectorAll(".tabs, .bar")) {
		if (e.scrollHeight > e.clientHeight + 1) found.push("." + e.className + " of " + e.scrollHeight + " pixels in " + e.clientHeight);
	}
	for (const e of document.querySelectorAll("a[href], button, input, select, textarea, summary")) {
		const boxes = [e, ...(e.labels ?? [])].map(each => each.getBoundingClientRect());
		const hidden = boxes[0].width === 0 || getComputedStyle(e).visibility === "hidden" || e.closest(".visually-hidden") || e.matches(".skip, :disabled");
		if (!hidden && !boxes.some(box => box.width >= 23.5 && box.height >= 23.5)) {
			found.push(Math.round(boxes[0].width) + " by " + Math.round(boxes[0].height) + " pixels are hard to hit: " + e.textContent.trim().slice(0, 40) + " " + e.cloneNode(false).outerHTML.slice(0, 120));
		}
	}
	return found;
})()`

// tabTo presses Tab until an element with the name has the focus; of a name that ends with "*", with one that begins
// so. The focus must always be visible.
func (p *page) tabTo(name string) {
	p.t.Helper()
	var walked []string
	const most = 120
	begin, isPrefix := strings.CutSuffix(name, "*")
	for range most {
		p.press("Tab")
		focused := must[struct {
			Name  string
			Shown bool
			What  string
		}](p, focusScript)
		if !focused.Shown {
			p.t.Errorf("the focus cannot be seen on %s", focused.What)
		}
		if strings.EqualFold(focused.Name, name) || isPrefix && strings.HasPrefix(focused.Name, begin) {
			return
		}
		walked = append(walked, focused.Name)
	}
	p.t.Fatalf("the Tab key does not lead to %q in %d steps, but to %q", name, most, slices.Compact(walked))
}

// focusScript returns the focused element, and whether the focus is visible.
const focusScript = `(() => {
	const e = document.activeElement ?? document.body; // null while a page loads
	if (!e) return {name: "", shown: true, what: "nothing"};
	const style = getComputedStyle(e);
	const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
	const labels = [...(e.labels ?? [])].map(l => l.textContent).join(" ").trim();
	const name = e.getAttribute("aria-label") || labels || e.textContent || "";
	return {name: name.trim().replace(/\s+/g, " ").slice(0, 80), shown: e === document.body || ring, what: e.cloneNode(false).outerHTML.slice(0, 200)};
})()`

// pictures is where TestPictures writes its files.
var pictures = flag.String("pictures", "", "`folder` for the pictures of docs")

// maxPicture is the maximum size of a picture in docs.
const maxPicture = 300_000

// TestPictures takes the pictures of docs for `make screenshots`, with all examples running.
func TestPictures(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	container := "/resources/immortalcontainers.immortalcontainers.flugel.it/default/example"
	controller := "/controllers/setpoint/compositecontroller.metacontroller.k8s.io~immortalcontainers-controller"
	for _, each := range []struct{ name, path, scheme, text string }{
		{"overview-light", "/", "light", "guitar"},
		{"overview-dark", "/", "dark", "guitar"},
		{"controller-light", controller, "light", "example"},
		{"controller-dark", controller, "dark", "example"},
		{"object", container, "light", "example-immortalpod"},
		{"guitars", guitarsPath, "light", "stratocaster"},
		{"form", "/resources/immortalcontainers.immortalcontainers.flugel.it/new", "light", "image"},
	} {
		p.scheme(each.scheme)
		p.open(each.path)
		p.see(each.text)
		p.savePicture(each.name, p.screenshot())
	}
}

// savePicture writes a compressed picture without loss.
func (p *page) savePicture(name string, picture []byte) {
	p.t.Helper()
	decoded := valueOf(png.Decode(bytes.NewReader(picture)))(p.t)
	if size := decoded.Bounds().Size(); size.X != desktopWidth || size.Y != desktopHeight {
		p.t.Errorf("%s is %v", name, size)
	}
	if len(picture) > maxPicture {
		p.t.Errorf("%s has %d bytes, more than %d", name, len(picture), maxPicture)
	}
	folder := *pictures
	if folder == "" {
		folder = p.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		p.t.Error(err)
	}
}
