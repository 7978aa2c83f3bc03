package userclient

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// pathOf is where objects of a kind are, or one of them. A name comes from an address
// that anybody may have written: one that would lead to another place is refused.
func pathOf(kind model.Kind, namespace, name string) ([]string, error) {
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
			return nil, fmt.Errorf("%q is not a name: %s: %w", segment, strings.Join(problems, ", "), model.ErrNotFound)
		}
	}
	return segments, nil
}

// describe name an object, or all of a kind, for messages: "guitars shop/a".
func describe(kind model.Kind, namespace, name string) string {
	text := kind.Plural
	if kind.Group != "" {
		text += "." + kind.Group
	}
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
