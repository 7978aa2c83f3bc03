package browser

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// pageErrors collects what must not happen on any page: script and console errors including
// policy violations, failed requests, requests to other hosts, and dialogs.
type pageErrors struct {
	host string

	mu      sync.Mutex
	found   []string
	allowed []*regexp.Regexp
	urls    map[network.RequestID]string
}

func newPageErrors(host string) *pageErrors {
	return &pageErrors{host: host, urls: map[network.RequestID]string{}}
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
