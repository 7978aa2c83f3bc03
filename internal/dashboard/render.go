package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
)

// view is what a page's template sees.
type view struct {
	// Title is the page's, and Section which part of the navigation it belongs to:
	// "overview" or "resources".
	Title, Section string
	// URL is the path and the query of the page.
	URL string
	// User is the name of the visitor who has signed in; "" where nobody has to.
	User string
	// CSRF is what each form that changes something carries, in a field "csrf".
	CSRF string
	// Flash is what came of what was asked for before; "" for nothing.
	Flash   string
	Version string
	// EventsURL is where changes are told; "" for a page that stays as it is.
	EventsURL string
	// Data is the page's own.
	Data any
}

// page is what a handler says about its page.
type page struct {
	// Name is that of its template, without ".html".
	Name string
	// Title and Section as in view.
	Title, Section string
	// Watch has the page told of changes of this resource too, such as "pods" or
	// "guitars.kool.karmalabs.local", of those in Namespace alone if that is set, and of
	// the Object of a name alone.
	Watch, Namespace, Object string
	// Static pages stay as they are: what is being typed there is not to move.
	Static bool
	// Status is that of HTTP; 200 if zero.
	Status int
	Data   any
}

// render answers with a page. It is made in full before anything is sent, so that
// what goes wrong with it becomes a page of its own. A browser that has the page
// already (htmx) gets what is in its frame alone.
func (req *request) render(p page) error {
	shown := view{
		Title: p.Title, Section: p.Section, URL: req.requestURI(),
		Version: req.options.Version, Data: p.Data,
	}
	req.setUser(&shown)
	if !p.Static && req.identity != nil {
		shown.EventsURL = liveURL(req.r.URL.Path, &p)
	}
	block := "content"
	if req.r.Header.Get("Hx-Request") == "" || req.r.Header.Get("Hx-History-Restore-Request") != "" {
		block, shown.Flash = "layout", req.takeFlash()
	}
	return req.renderBlock(p, block, shown)
}

func (req *request) renderBlock(p page, block string, shown view) error {
	// What could not be asked to the end would be shown as if it were not there.
	if err := cmp.Or(req.accessErrors.first(), req.context().Err()); err != nil && p.Name != problemPage {
		return err
	}
	template := req.pages[p.Name]
	if template == nil {
		return fmt.Errorf("there is no page %q", p.Name)
	}
	var out bytes.Buffer
	if err := template.ExecuteTemplate(&out, block, shown); err != nil {
		return fmt.Errorf("show the page %q: %w", p.Name, err)
	}
	req.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// Who went away meanwhile reads no error.
	_ = req.write(p.Status, out.Bytes(), false)
	return nil
}

// renderFragment answers with one block of a page's template alone, which sees data.
func (req *request) renderFragment(name, block string, data any) error {
	shown := view{URL: req.requestURI(), Version: req.options.Version, Data: data}
	req.setUser(&shown)
	return req.renderBlock(page{Name: name}, block, shown)
}

// setUser says who visits.
func (req *request) setUser(to *view) {
	if req.identity == nil {
		return
	}
	to.CSRF = req.identity.CSRF
	if !req.usesOwnCredentials() {
		to.User = req.identity.User.Name
	}
}
