package dashboard

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// noNamespace replaces the namespace of cluster-scoped objects in URLs.
const noNamespace = "-"

// controllerURL returns the page of a controller.
func controllerURL(process, name string) string {
	return "/controllers/" + url.PathEscape(process) + "/" + url.PathEscape(slug(name))
}

// slug returns a controller name as a path segment.
func slug(name string) string { return strings.ReplaceAll(name, "/", "~") }

// unslug reverses slug.
func unslug(text string) string { return strings.ReplaceAll(text, "~", "/") }

// resourceURL returns the page of a kind.
func resourceURL(k object.Kind) string { return "/resources/" + url.PathEscape(k.Resource()) }

// objectURL returns the page of an object, or a page below it.
func objectURL(ref object.Ref, below ...string) string {
	parts := []string{resourceURL(ref.Kind)}
	for _, part := range append([]string{cmp.Or(ref.Namespace, noNamespace), ref.Name}, below...) {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// liveURL returns the event stream of a page.
func liveURL(p *page) string {
	if p.Watch == "" {
		return "/live"
	}
	return "/live?" + url.Values{"watch": {p.Watch}, "namespace": {p.Namespace}, "name": {p.Object}}.Encode()
}

// urlWith returns a URL with other query parameters, given as names and values; "" removes one.
func urlWith(at *url.URL, parameters ...string) string {
	query := at.Query()
	for pair := range slices.Chunk(parameters, 2) {
		query.Set(pair[0], pair[1])
		if pair[1] == "" {
			query.Del(pair[0])
		}
	}
	changed := *at
	changed.RawQuery = query.Encode()
	return changed.RequestURI()
}
