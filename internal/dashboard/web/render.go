package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Page is a page to render, and the data of its template.
type Page struct {
	// Name is the name of the template, without ".html".
	Name string
	// Section is the active item of the navigation: "overview" or "resources".
	Title, Section string
	// Watch also refreshes the page on changes of a resource, such as "pods", in one namespace or of one object if set.
	Watch, Namespace, Object string
	// Static pages do not refresh, since the user types there.
	Static bool
	// Status is the HTTP status; 200 if zero.
	Status int
	// Data is the data of the page.
	Data any

	// The fields below are set when the page is rendered.

	// URL is the path and query of the page.
	URL string
	// User is the name of the signed-in user; "" if sign-in is not needed.
	User string
	// SignedIn reports whether there is a user.
	SignedIn bool
	// Flash is the result of the previous action; "" for none.
	Flash   string
	Version string
	// EventsURL is the event stream of the page; "" for static pages.
	EventsURL string
}

// Render sends a page. htmx gets the content without the layout.
func (req *Request) Render(p Page) error {
	if !p.Static && req.User != nil {
		p.EventsURL = LiveURL(&p)
	}
	if req.IsFragment() {
		return req.renderBlock(&p, "content")
	}
	p.Flash = req.takeFlash()
	return req.renderBlock(&p, "layout")
}

// RenderFragment sends one block of a template.
func (req *Request) RenderFragment(name, block string, data any) error {
	return req.renderBlock(&Page{Name: name, Data: data}, block)
}

// renderBlock renders a block completely before it is sent, so that an error becomes an error page.
func (req *Request) renderBlock(p *Page, block string) error {
	// A page with unknown permissions would look as if objects were missing.
	if err := cmp.Or(req.AccessError(), req.Context().Err()); err != nil && p.Name != problemPage {
		return err
	}
	template := req.Templates[p.Name]
	if template == nil {
		return fmt.Errorf("there is no page %q", p.Name)
	}
	p.URL, p.Version = req.R.URL.RequestURI(), req.Version
	if p.SignedIn = req.User != nil; p.SignedIn && !req.UsesOwnCredentials() {
		p.User = req.User.Name
	}
	var out bytes.Buffer
	if err := template.ExecuteTemplate(&out, block, p); err != nil {
		return fmt.Errorf("render page %q: %w", p.Name, err)
	}
	req.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	// The client may have left.
	_ = req.write(p.Status, out.Bytes(), false)
	return nil
}

// Functions returns the functions of all templates.
func (s *Site) Functions() template.FuncMap {
	return template.FuncMap{
		"asset":           s.Assets.Link,
		"ago":             func(t time.Time) string { return format.Age(s.Now().Sub(t)) },
		"until":           func(t time.Time) string { return format.Age(t.Sub(s.Now())) },
		"inDuration":      func(t time.Time) string { return format.Until(t.Sub(s.Now())) },
		"past":            func(t time.Time) bool { return t.Before(s.Now().Add(time.Second)) },
		"timestamp":       format.Timestamp,
		"timeOfDay":       format.TimeOfDay,
		"longText":        format.Long,
		"shorten":         format.Shorten,
		"value":           diff.Value,
		"duration":        format.Duration,
		"bytes":           format.Bytes,
		"count":           format.Count,
		"plural":          format.Plural,
		"dict":            dict,
		"disabledReasons": disabledReasons,
		"live":            liveAttributes,
		"tone":            Tone,
		"responseTone":    responseTone,
		"title":           format.Capitalize,
		"words":           format.Breakable,
		"join":            strings.Join,
		"reasonPage":      func(reason string) string { return failure.Page(reason, s.Version) },
		"controllerURL":   ControllerURL,
		"resourceURL":     ResourceURL,
		"objectURL":       ObjectURL,
		"shortName":       processes.ShortName,
		"icon":            icon,
	}
}

// liveAttributes returns the attributes of an element that refreshes itself: it reloads its
// page on a change and takes the element with its ID.
func liveAttributes(id, here string) template.HTMLAttr {
	escape := template.HTMLEscapeString
	//nolint:gosec // Both are escaped.
	return template.HTMLAttr(fmt.Sprintf(
		`id="%[1]s" hx-get="%[2]s" hx-select="#%[1]s" hx-trigger="live" hx-swap="morph:outerHTML" hx-sync="this:drop" hx-disinherit="*"`,
		escape(id), escape(here)))
}

func dict(pairs ...any) map[string]any {
	all := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		all[fmt.Sprint(pair[0])] = pair[1]
	}
	return all
}

// Tone returns the CSS class for a state, an outcome or the status of a condition: "good",
// "bad", "warn", "wait" or "neutral".
func Tone(of any) string {
	switch fmt.Sprint(of) {
	case string(inspect.StateSynced), "Current", "True", "synced", "allowed", "mutated", "Normal", "ready", "ok":
		return "good"
	case string(inspect.StateFailing), string(processes.Crashed), string(processes.Unreachable), "Failed", "False", "failed", "denied",
		"gone", "error", "panic":
		return "bad"
	case string(inspect.StateConflicting), "Warning", "Terminating", "delete", "deleted", "evict":
		return "warn"
	case string(inspect.StateQueued), "InProgress", "postponed", "create", "update", "apply":
		return "wait"
	default:
		return "neutral"
	}
}

// responseTone returns the CSS class for the result of a call: an HTTP status code or a word.
func responseTone(outcome string) string {
	switch {
	case strings.HasPrefix(outcome, "2"), strings.HasPrefix(outcome, "3"):
		return "good"
	case outcome == "429":
		return "warn"
	case outcome != "" && outcome[0] >= '0' && outcome[0] <= '9':
		return "bad"
	}
	return Tone(outcome)
}

// icons are 16 by 16 icons. They always accompany text.
var icons = map[string]template.HTML{
	"good":    `<path d="M3.5 8.5l3 3 6-7"/>`,
	"bad":     `<path d="M4.5 4.5l7 7m0-7l-7 7"/>`,
	"warn":    `<path d="M8 2.5l6 11H2zM8 7v3m0 1.6v.4"/>`,
	"wait":    `<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3l2 1.5"/>`,
	"neutral": `<path d="M4 8h8"/>`,
	"pause":   `<path d="M5.5 4v8m5-8v8"/>`,
	"play":    `<path d="M5 3.5l7 4.5-7 4.5z"/>`,
	"again":   `<path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3"/>`,
	"plus":    `<path d="M8 3v10M3 8h10"/>`,
	"trash":   `<path d="M3 4.5h10M6.5 4V2.5h3V4m-5 .5l.6 9h5.8l.6-9"/>`,
	"edit":    `<path d="M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z"/>`,
	"search":  `<circle cx="7" cy="7" r="4.5"/><path d="M10.5 10.5L14 14"/>`,
	"out":     `<path d="M6 3H3v10h3m3-8l3 3-3 3m3-3H6"/>`,
	"keys":    `<rect x="1.5" y="4" width="13" height="8" rx="1.5"/><path d="M4 6.5h.01M7 6.5h.01M10 6.5h.01M5 9.5h6"/>`,
	"theme":   `<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5v11a5.5 5.5 0 0 0 0-11z" fill="currentColor"/>`,
}

func icon(name string) template.HTML {
	return `<svg class="icon" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">` +
		icons[name] + `</svg>`
}

// LiveURL returns the event stream of a page.
func LiveURL(p *Page) string {
	if p.Watch == "" {
		return "/live"
	}
	return "/live?" + url.Values{"watch": {p.Watch}, "namespace": {p.Namespace}, "name": {p.Object}}.Encode()
}

// minGzipBytes is the smallest response worth compressing.
const minGzipBytes = 1024

// write sends a response, compressed where that is safe. The compressed size of a page that
// mixes text of an attacker with secrets leaks how much they have in common (BREACH). An
// attacker needs another site that makes the browser load many pages, so only same-origin
// requests and direct navigation are compressed. Public assets are compressed for everyone.
func (req *Request) write(status int, body []byte, public bool) error {
	header := req.W.Header()
	header.Add("Vary", "Accept-Encoding")
	if !public {
		header.Add("Vary", "Sec-Fetch-Site")
	}
	site := req.R.Header.Get("Sec-Fetch-Site")
	safe := public || site == "same-origin" || site == "none" // A page of the dashboard or the user made the request.
	if len(body) >= minGzipBytes && safe && acceptsGzip(req.R) {
		header.Set("Content-Encoding", "gzip")
		var out bytes.Buffer
		small, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // BestSpeed is a valid level.
		_, _ = small.Write(body)                              // A bytes.Buffer never fails.
		_ = small.Close()
		body = out.Bytes()
	}
	req.W.WriteHeader(max(status, http.StatusOK))
	_, err := req.W.Write(body)
	return err
}

func acceptsGzip(r *http.Request) bool {
	for each := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, parameter, _ := strings.Cut(strings.TrimSpace(each), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			quality := strings.ReplaceAll(parameter, " ", "")
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}
