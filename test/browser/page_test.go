package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	desktopWidth, desktopHeight = 1280, 800
	phoneWidth, phoneHeight     = 390, 844
)

const (
	// waitTimeout is long, since the machine may be busy.
	waitTimeout  = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// page is a browser tab. Unexpected errors fail its test.
type page struct {
	t      *testing.T
	ctx    context.Context // a tab is a context in chromedp
	base   string
	errors *pageErrors
}

// sharedUI returns the URL of the shared dashboard.
func sharedUI() string { return os.Getenv(uiVariable) }

// sessionUI returns the address of the shared dashboard that the session prints, which has its token.
func sessionUI() string { return os.Getenv("SETPOINT_DASHBOARD") }

// newPage opens a tab with a new profile, in which the shared dashboard was opened by the printed address.
func newPage(t *testing.T, base string) *page {
	t.Helper()
	address := valueOf(url.Parse(base))(t)
	p := &page{t: t, base: base, errors: &pageErrors{host: address.Host, urls: map[network.RequestID]string{}}}
	ctx, closeWindow := chromedp.NewContext(chromium,
		chromedp.WithNewBrowserContext(), chromedp.WithListener(p.errors.listen))
	p.ctx = ctx
	t.Cleanup(func() {
		for _, fault := range p.errors.unexpected() {
			t.Errorf("%s", fault)
		}
		if t.Failed() {
			p.saveScreenshot()
		}
		closeWindow()
	})
	// The tab lives as long as the context of its first action, so it has no timeout.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	p.do("watch a window", call(network.Enable, network.EnableParams{}), call(cdppage.Enable, cdppage.EnableParams{}))
	p.resize(desktopWidth, desktopHeight)
	p.scheme("light")
	if base == sharedUI() {
		p.enter(sessionUI())
		if token := os.Getenv(tokenVariable); token != "" {
			p.signIn(token)
			p.see("Sign out")
		}
	}
	return p
}

// enter opens the printed address of a dashboard, so that the tab has its cookie.
func (p *page) enter(printed string) {
	p.t.Helper()
	p.do("open the printed address", chromedp.Navigate(printed))
}

// call returns an action for a protocol command whose result is not needed.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

func (p *page) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// until repeats a check until it succeeds.
func (p *page) until(what string, check func() error) {
	p.t.Helper()
	until(p.t, what, waitTimeout, check)
}

func until(t *testing.T, what string, limit time.Duration, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}

// evaluate evaluates an expression. It returns an error if the page goes away meanwhile.
func evaluate[T any](p *page, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// must is evaluate without errors.
func must[T any](p *page, expression string) T {
	p.t.Helper()
	value, err := evaluate[T](p, expression)
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// quote returns a JavaScript literal.
func quote(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(text)
}

// open loads a path.
func (p *page) open(path string) {
	p.t.Helper()
	p.do("open "+path, chromedp.Navigate(p.base+path))
}

// loaded waits until the page has loaded, and its scripts run.
func (p *page) loaded() {
	p.t.Helper()
	p.until("be loaded", func() error {
		state, err := evaluate[string](p, "document.readyState")
		if err == nil && state != "complete" {
			err = errors.New(state)
		}
		return err
	})
}

func (p *page) reload() {
	p.t.Helper()
	p.do("reload", chromedp.Reload())
}

func (p *page) back() {
	p.t.Helper()
	_ = must[any](p, "void history.back()")
}

// at waits until the URL has a path, with a query if given.
func (p *page) at(path string) {
	p.t.Helper()
	want := "location.pathname"
	if strings.Contains(path, "?") {
		want += " + location.search"
	}
	p.until("be at "+path, func() error {
		at, err := evaluate[string](p, want)
		if err == nil && at != path {
			err = fmt.Errorf("at %s", at)
		}
		return err
	})
}

// text returns the visible text in lower case with single spaces.
func (p *page) text() (string, error) { return p.textOf("body") }

// textOf returns the text of all elements of a selector.
func (p *page) textOf(selector string) (string, error) {
	text, err := evaluate[string](p, "[...document.querySelectorAll("+quote(selector)+")].map(e => e.innerText).join(' ')")
	return flat(text), err
}

func flat(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// see waits until all texts are visible.
func (p *page) see(texts ...string) {
	p.t.Helper()
	p.seeIn("body", texts...)
}

// seeIn waits until all texts are visible in the elements of a selector.
func (p *page) seeIn(selector string, texts ...string) {
	p.t.Helper()
	p.untilShown(true, selector, texts)
}

// notSee waits until no text is visible.
func (p *page) notSee(texts ...string) {
	p.t.Helper()
	p.notSeeIn("body", texts...)
}

// notSeeIn waits until no text is visible in the elements of a selector.
func (p *page) notSeeIn(selector string, texts ...string) {
	p.t.Helper()
	p.untilShown(false, selector, texts)
}

func (p *page) untilShown(shown bool, selector string, texts []string) {
	p.t.Helper()
	p.until(fmt.Sprintf("that %q is shown in %s: %v", texts, selector, shown), func() error {
		seen, err := p.textOf(selector)
		for _, text := range texts {
			if err == nil && strings.Contains(seen, flat(text)) != shown {
				return fmt.Errorf("that %q is shown is not %v in: %s", text, shown, cut(seen))
			}
		}
		return err
	})
}

// cut truncates a text for a message.
func cut(text string) string {
	const most = 3000
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// resize sets the size of the tab.
func (p *page) resize(width, height int64) {
	p.t.Helper()
	p.do("resize", call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < desktopWidth/2,
	}))
}

// scheme sets light or dark mode, and disables animations.
func (p *page) scheme(preferred string) {
	p.t.Helper()
	p.do("prefer "+preferred, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: preferred},
			{Name: "prefers-reduced-motion", Value: "reduce"},
		},
	}))
}

// screenshot takes a screenshot.
func (p *page) screenshot() []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a picture: %v", err)
	}
	return picture
}

// saveScreenshot saves a screenshot and the text of the page of a failed test. `go test
// -artifacts` keeps them.
func (p *page) saveScreenshot() {
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	at, _ := evaluate[string](p, "location.href")
	text, _ := evaluate[string](p, "document.body.innerText")
	p.t.Logf("the page at %s:\n%s", at, cut(text))
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return // the tab is closed
	}
	file := filepath.Join(p.t.ArtifactDir(), "page.png")
	if err := os.WriteFile(file, picture, 0o600); err == nil {
		p.t.Logf("what was seen: %s", file)
	}
}

// pageErrors collects what must not happen on any page: script and console errors including
// policy violations, failed requests, requests to other hosts, and dialogs.
type pageErrors struct {
	host string

	mu      sync.Mutex
	found   []string
	allowed []*regexp.Regexp
	urls    map[network.RequestID]string
}

// allow allows an expected error.
func (f *pageErrors) allow(pattern string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowed = append(f.allowed, regexp.MustCompile(pattern))
}

// unexpected returns the distinct errors that are not allowed.
func (f *pageErrors) unexpected() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(f.found), func(fault string) bool {
		return slices.ContainsFunc(f.allowed, func(p *regexp.Regexp) bool { return p.MatchString(fault) })
	})
	slices.Sort(left)
	return slices.Compact(left)
}

func (f *pageErrors) record(format string, args ...any) {
	f.found = append(f.found, fmt.Sprintf(format, args...))
}

// listen records the events of a page.
func (f *pageErrors) listen(event any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		f.record("exception: %s", describeException(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if text := describeValues(e.Args); (e.Type == "error" || e.Type == "assert") && text != "htmx:sendAbort" { // See listenToNetwork.
			f.record("console.%s: %s", e.Type, text)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			f.record("console: %s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *cdppage.EventJavascriptDialogOpening:
		f.record("dialog: %s", e.Message)
	default:
		f.listenToNetwork(event)
	}
}

func (f *pageErrors) listenToNetwork(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		f.urls[e.RequestID] = e.Request.Method + " " + e.Request.URL
		if to, err := url.Parse(e.Request.URL); err != nil || strings.HasPrefix(to.Scheme, "http") && to.Host != f.host {
			f.record("another host: %s", e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			f.record("status %d: %s", e.Response.Status, f.urls[e.RequestID])
		}
	case *network.EventLoadingFailed:
		// Leaving a page aborts its requests.
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" {
			f.record("request failed: %s: %s %s", f.urls[e.RequestID], e.ErrorText, e.BlockedReason)
		}
	}
}

func describeException(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return fmt.Sprintf("%s (%s:%d)", d.Text, d.URL, d.LineNumber)
}

func describeValues(values []*runtime.RemoteObject) string {
	var words []string
	for _, v := range values {
		if v.Description != "" {
			words = append(words, v.Description)
		} else {
			words = append(words, strings.Trim(string(v.Value), `"`))
		}
	}
	return strings.Join(words, " ")
}
