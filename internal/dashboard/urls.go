package dashboard

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// noNamespace stands in URLs for the namespace of what is in none.
const noNamespace = "-"

// controllerURL is the page of a controller.
func controllerURL(process, name string) string {
	return "/controllers/" + url.PathEscape(process) + "/" + url.PathEscape(slug(name))
}

// slug is the name of a controller as one part of a path.
func slug(name string) string { return strings.ReplaceAll(name, "/", "~") }

// unslug is the name that a slug stands for.
func unslug(text string) string { return strings.ReplaceAll(text, "~", "/") }

// resourceURL is the page of a kind.
func resourceURL(k model.Kind) string { return "/resources/" + url.PathEscape(k.Resource()) }

// objectURL is the page of an object, or the one below it that is named.
func objectURL(ref model.Ref, below ...string) string {
	parts := []string{resourceURL(ref.Kind)}
	for _, part := range append([]string{cmp.Or(ref.Namespace, noNamespace), ref.Name}, below...) {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// liveURL is where a page is told of changes: also of objects of the resource that it
// watches, in all namespaces or in one; of that of a name alone if there is a name.
func liveURL(path string, p *page) string {
	query := url.Values{"page": {path}}
	for name, value := range map[string]string{"watch": p.Watch, "namespace": p.Namespace, "name": p.Object} {
		if value != "" && p.Watch != "" {
			query.Set(name, value)
		}
	}
	return "/live?" + query.Encode()
}
