package userclient

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pathOf returns the URL path of a kind or an object. Names come from URLs, so names that would
// change the path are rejected.
func pathOf(kind object.Kind, namespace, name string) ([]string, error) {
	segments := []string{"/api", kind.Version}
	if kind.Group != "" {
		segments = []string{"/apis", kind.Group, kind.Version}
	}
	if kind.Namespaced && namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	segments = append(segments, kind.Plural)
	if name != "" {
		segments = append(segments, name)
	}
	for _, segment := range segments[1:] {
		if problems := content.IsPathSegmentName(segment); segment == "" || len(problems) > 0 {
			return nil, fmt.Errorf("%q is not a name: %s: %w", segment, strings.Join(problems, ", "), failure.ErrNotFound)
		}
	}
	return segments, nil
}

// describe names an object or a kind in messages: "guitars shop/a".
func describe(kind object.Kind, namespace, name string) string {
	text := kind.Resource()
	switch {
	case name != "" && kind.Namespaced:
		return text + " " + namespace + "/" + name
	case name != "":
		return text + " " + name
	case namespace != "":
		return text + " in " + namespace
	}
	return text
}
