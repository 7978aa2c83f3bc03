package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
)

// view is the data of all templates.
type view struct {
	// Section is the active item of the navigation: "overview" or "resources".
	Title, Section string
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
	// Data is the data of the page.
	Data any
}

// page describes a page to render.
type page struct {
	// Name is the name of the template, without ".html".
	Name string
	// Title and Section are those of view.
	Title, Section string
	// Watch also refreshes the page on changes of a resource, such as "pods", in one namespace
	// or of one object if set.
	Watch, Namespace, Object string
	// Static pages do not refresh, since the user types there.
	Static bool
	// Status is the HTTP status; 200 if zero.
	Status int
	Data   any
}

// render sends a page. The page is rendered completely first, so that an error becomes an error
// page. htmx gets the content without the layout.
func (req *request) render(p page) error {
	shown := view{
		Title: p.Title, Section: p.Section, URL: req.requestURI(),
		Version: req.options.Version, Data: p.Data,
	}
	req.setUser(&shown)
	if !p.Static && req.identity != nil {
		shown.EventsURL = liveURL(&p)
	}
	block := "content"
	if !req.isFragment() {
		block, shown.Flash = "layout", req.takeFlash()
	}
	return req.renderBlock(p, block, shown)
}

func (req *request) renderBlock(p page, block string, shown view) error {
	// A page with unknown permissions would look as if objects were missing.
	if err := cmp.Or(req.accessErrors.first(), req.context().Err()); err != nil && p.Name != problemPage {
		return err
	}
	template := req.pages[p.Name]
	if template == nil {
		return fmt.Errorf("there is no page %q", p.Name)
	}
	var out bytes.Buffer
	if err := template.ExecuteTemplate(&out, block, shown); err != nil {
		return fmt.Errorf("render page %q: %w", p.Name, err)
	}
	req.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// The client may have left.
	_ = req.write(p.Status, out.Bytes(), false)
	return nil
}

// renderFragment sends one block of a template.
func (req *request) renderFragment(name, block string, data any) error {
	shown := view{URL: req.requestURI(), Version: req.options.Version, Data: data}
	req.setUser(&shown)
	return req.renderBlock(page{Name: name}, block, shown)
}

// setUser adds the user to the view.
func (req *request) setUser(to *view) {
	if req.identity == nil {
		return
	}
	to.CSRF = req.identity.CSRF
	if !req.usesOwnCredentials() {
		to.User = req.identity.User.Name
	}
}
