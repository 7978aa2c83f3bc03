package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestHarnessFindsErrors checks that the harness finds errors on a broken page.
func TestHarnessFindsErrors(t *testing.T) {
	t.Parallel()
	server := serve(t, `<html><body>
		<h1>Bad</h1><h3 id="a">Deep</h3><p id="a" style="color: red">Twice</p>
		<p class="dim">Hardly legible</p><input><button></button><img src="/gone.png">
		<label for="nothing">Nothing</label>
		<script>console.error("a complaint"); fetch("http://localhost:1/elsewhere").catch(() => 0); throw new Error("thrown")</script>
		<script src="/script.js"></script>
	</body></html>`)
	p := newPage(t, server.URL)
	p.errors.allow(".")
	p.open("/")

	p.until("find the faults", func() error {
		p.errors.mu.Lock()
		defer p.errors.mu.Unlock()
		return missing(p.errors.found, "another host: http://localhost:1/elsewhere", "console.error: a complaint",
			"Error: thrown", "status 404: GET "+server.URL+"/gone.png", "console: security: ")
	})
	p.until("find what is hard to use", func() error {
		found, err := evaluate[[]string](p, auditScript)
		if err != nil {
			return err
		}
		return missing(found, "the page has no language", "the page has no title", "the page has 0 main parts",
			"a heading of level 3 follows one of level 1", "the id a exists 2 times", "contrast 1.", "a field has no label: <input>",
			"a link or a button has no name: <button>", "an image has no alternative", "for names nothing, which does not exist")
	})
}

// missing returns an error if a text is not found.
func missing(found []string, wanted ...string) error {
	for _, want := range wanted {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, want) }) {
			return fmt.Errorf("%q was not found, but:\n%s", want, strings.Join(found, "\n"))
		}
	}
	return nil
}

// TestHarnessUsesPages checks a correct page.
func TestHarnessUsesPages(t *testing.T) {
	t.Parallel()
	server := serve(t, `<html lang="en"><head><title>Good</title><link rel="stylesheet" href="/style.css"></head><body><main>
		<h1>Good</h1>
		<form action="/done"><label>Name <input name="name" value="old"></label>
		<label>Color <select name="color"><option value="r">Red</option><option value="g">Green</option></select></label>
		<label><input type="checkbox" name="loud" value="yes"> Loud</label>
		<details><summary>More</summary><label>Note <textarea name="note"></textarea></label></details>
		<button>Send</button> <button type="button" disabled>Not yet</button></form>
	</main></body></html>`)
	p := newPage(t, server.URL)
	p.open("/")
	p.see("Good")
	p.audit()
	p.fill("Name", "new & better")
	p.fill("Color", "Green")
	p.click("Loud")
	p.click("More")
	p.fill("Note", "two\nlines")
	p.disabled("Not yet")
	if got := p.valueOf("Name"); got != "new & better" {
		t.Errorf("the field holds %q", got)
	}
	p.click("Send")
	p.at("/done?name=new+%26+better&color=g&loud=yes&note=two%0D%0Alines")
	p.back()
	p.at("/")
	p.tabTo("Name")
	p.resize(phoneWidth, phoneHeight)
	p.expectNoOverflow()
	if picture := p.screenshot(); len(picture) < 1000 {
		t.Errorf("a picture has %d bytes", len(picture))
	}
}

// serve serves one page with the policy of the dashboard.
func serve(t *testing.T, page string) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone.png":
			http.NotFound(w, r)
		case "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
		case "/style.css":
			w.Header().Set("Content-Type", "text/css")
			fmt.Fprint(w, `:focus-visible { outline: 2px solid blue } .dim { color: #eee } input, select, button, summary, textarea { min-width: 24px; min-height: 24px }`)
		case "/script.js":
			fmt.Fprint(w, `const style = document.createElement("style"); style.textContent = ".dim { color: #eee }"; document.head.append(style); eval("1")`)
		default:
			policy := "default-src 'self'; img-src 'self'; connect-src *"
			if strings.Contains(page, "Bad") {
				policy = "default-src 'self' 'unsafe-inline'; connect-src *"
			}
			w.Header().Set("Content-Security-Policy", policy)
			fmt.Fprint(w, "<!doctype html>"+page)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// valueOf takes the results of a call, and ends the test with the error: valueOf(os.ReadFile(path))(t).
func valueOf[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return value
	}
}

// succeed ends the test with an error, if there is one.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chromium is the shared browser. Each test has its own profile.
var chromium context.Context

// startChromium starts the browser, and installs it first if possible.
func startChromium(ctx context.Context) (stop func(), err error) {
	finder := exec.Command(filepath.Join("..", "..", "tools", "find-chromium.sh"))
	finder.Stderr = os.Stderr
	found, err := finder.Output()
	if err != nil {
		return nil, fmt.Errorf("find a browser: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(strings.TrimSpace(string(found))),
		chromedp.WindowSize(desktopWidth, desktopHeight),
		chromedp.Flag("hide-scrollbars", true),
		// Otherwise input before the first frame is dropped.
		chromedp.Flag("allow-pre-commit-input", true),
		chromedp.WSURLReadTimeout(2*time.Minute),
	)
	if os.Geteuid() == 0 {
		// The sandbox of Chromium does not work as root.
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, stopBrowser := chromedp.NewContext(allocator)
	stop = func() {
		stopBrowser()
		stopAllocator()
	}
	// The first action starts it.
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", strings.TrimSpace(string(found)), err)
	}
	chromium = browser
	return stop, nil
}
