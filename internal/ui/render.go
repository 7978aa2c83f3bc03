package ui

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
	// Here is the path and the query of the page.
	Here string
	// User is the name of the visitor who has signed in; "" where nobody has to.
	User string
	// CSRF is what each form that changes something carries, in a field "csrf".
	CSRF string
	// Flash is what came of what was asked for before; "" for nothing.
	Flash   string
	Version string
	// Live is where changes are told; "" for a page that stays as it is.
	Live string
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
	// Still pages stay as they are: what is being typed there is not to move.
	Still bool
	// Status is that of HTTP; 200 if zero.
	Status int
	Data   any
}

// render answers with a page. It is made in full before anything is sent, so that
// what goes wrong with it becomes a page of its own. A browser that has the page
// already (htmx) gets what is in its frame alone.
func (v *visit) render(p page) error {
	shown := view{
		Title: p.Title, Section: p.Section, Here: v.here(),
		Version: v.options.Version, Data: p.Data,
	}
	v.introduce(&shown)
	if !p.Still && v.visitor != nil {
		shown.Live = liveURL(v.r.URL.Path, &p)
	}
	block := "content"
	if v.r.Header.Get("Hx-Request") == "" || v.r.Header.Get("Hx-History-Restore-Request") != "" {
		block, shown.Flash = "layout", v.takeFlash()
	}
	return v.send(p, block, shown)
}

func (v *visit) send(p page, block string, shown view) error {
	// What could not be asked to the end would be shown as if it were not there.
	if err := cmp.Or(v.doubt.reason(), v.context().Err()); err != nil && p.Name != pageOfProblem {
		return err
	}
	template := v.pages[p.Name]
	if template == nil {
		return fmt.Errorf("there is no page %q", p.Name)
	}
	var out bytes.Buffer
	if err := template.ExecuteTemplate(&out, block, shown); err != nil {
		return fmt.Errorf("show the page %q: %w", p.Name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// Who went away meanwhile reads no error.
	_ = v.write(p.Status, out.Bytes(), false)
	return nil
}

// fragment answers with one block of a page's template alone, which sees data.
func (v *visit) fragment(name, block string, data any) error {
	shown := view{Here: v.here(), Version: v.options.Version, Data: data}
	v.introduce(&shown)
	return v.send(page{Name: name}, block, shown)
}

// introduce says who visits.
func (v *visit) introduce(to *view) {
	if v.visitor == nil {
		return
	}
	to.CSRF = v.visitor.CSRF
	if !v.own() {
		to.User = v.visitor.User.Name
	}
}
