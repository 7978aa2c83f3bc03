package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
)

// page is a page to render, and the data of its template.
type page struct {
	// Name is the name of the template, without ".html".
	Name string
	// Section is the active item of the navigation: "overview" or "resources".
	Title, Section string
	// Watch also refreshes the page on changes of a resource, such as "pods", in one namespace
	// or of one object if set.
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
	// CSRF is the token that forms send in the field "csrf".
	CSRF string
	// Flash is the result of the previous action; "" for none.
	Flash   string
	Version string
	// EventsURL is the event stream of the page; "" for static pages.
	EventsURL string
}

// render sends a page. htmx gets the content without the layout.
func (req *request) render(p page) error {
	if !p.Static && req.identity != nil {
		p.EventsURL = liveURL(&p)
	}
	if req.isFragment() {
		return req.renderBlock(&p, "content")
	}
	p.Flash = req.takeFlash()
	return req.renderBlock(&p, "layout")
}

// renderFragment sends one block of a template.
func (req *request) renderFragment(name, block string, data any) error {
	return req.renderBlock(&page{Name: name, Data: data}, block)
}

// renderBlock renders a block completely before it is sent, so that an error becomes an error
// page.
func (req *request) renderBlock(p *page, block string) error {
	// A page with unknown permissions would look as if objects were missing.
	if err := cmp.Or(req.accessErrors.first(), req.context().Err()); err != nil && p.Name != problemPage {
		return err
	}
	template := req.pages[p.Name]
	if template == nil {
		return fmt.Errorf("there is no page %q", p.Name)
	}
	p.URL, p.Version = req.requestURI(), req.options.Version
	if req.identity != nil {
		p.CSRF = req.identity.CSRF
		if !req.usesOwnCredentials() {
			p.User = req.identity.User.Name
		}
	}
	var out bytes.Buffer
	if err := template.ExecuteTemplate(&out, block, p); err != nil {
		return fmt.Errorf("render page %q: %w", p.Name, err)
	}
	req.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// The client may have left.
	_ = req.write(p.Status, out.Bytes(), false)
	return nil
}
