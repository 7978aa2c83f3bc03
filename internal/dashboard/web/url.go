package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// noNamespace replaces the namespace of cluster-scoped objects in URLs.
const noNamespace = "-"

// ControllerURL returns the page of a controller.
func ControllerURL(process, name string) string {
	return "/controllers/" + url.PathEscape(process) + "/" + url.PathEscape(strings.ReplaceAll(name, "/", "~"))
}

// ResourceURL returns the page of a kind.
func ResourceURL(k object.Kind) string { return "/resources/" + url.PathEscape(k.Resource()) }

// ObjectURL returns the page of an object, or a page below it.
func ObjectURL(ref object.Ref, below ...string) string {
	parts := []string{ResourceURL(ref.Kind)}
	parts = append(parts, lists.Map(append([]string{cmp.Or(ref.Namespace, noNamespace), ref.Name}, below...), url.PathEscape)...)
	return strings.Join(parts, "/")
}

// URLWith returns a URL with other query parameters, given as names and values; "" removes one.
func URLWith(at *url.URL, parameters ...string) string {
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

// ReviewsURL returns the list of reviews of an object by a controller.
func ReviewsURL(process, controller string, of object.Ref) string {
	at := &url.URL{Path: ControllerURL(process, controller) + "/reviews"}
	return URLWith(at, "kind", KindValue(of.Group, of.Kind.Kind), "ns", of.Namespace, "name", of.Name)
}

// KindValue returns a kind as a URL parameter, such as "Pod" or "Deployment.apps".
func KindValue(group, kind string) string {
	if group == "" || kind == "" {
		return kind
	}
	return kind + "." + group
}
