// Package dashboard is the window: pages in a browser that show what controllers do and
// why, and in which their objects are worked with.
//
// Here live the routes, the pages with their templates, styles and scripts, and what
// keeps a page up to date. What must not: how controllers work, how a process is read
// (inspect), how the API server is asked (asuser), who visits (ui/access) and how
// a schema becomes a form (ui/form). The host and the dev loop serve it.
//
// A page is one template file and one file of Go with a function for each of its
// routes; routes.go lists them all. All that a visitor may see or do, the API server
// decides: it is asked as the visitor.
package dashboard
