package served

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// ErrNotServed means that the API server does not serve a resource.
var ErrNotServed = errors.New("not served by the API server")

// Guess returns a kind by its plural or its kind, as well as that is possible without the API server: the plural
// says nothing of capitals within the kind.
func Guess(apiVersion, name string) object.Resource {
	of := schema.FromAPIVersionAndKind(apiVersion, name)
	plural := name
	if strings.ToLower(name) == name {
		of.Kind = singular(name)
	} else {
		guess, _ := meta.UnsafeGuessKindToResource(of)
		plural = guess.Resource
	}
	return object.Resource{
		Group: of.Group, Version: of.Version, Plural: plural, Kind: of.Kind, Namespaced: true, Custom: strings.Contains(of.Group, "."),
		Unserved: true,
	}
}

// singular returns such as "Policy" for "policies".
func singular(plural string) string {
	kind := strings.ToUpper(plural[:min(1, len(plural))]) + plural[min(1, len(plural)):]
	for _, end := range [...][2]string{{"ies", "y"}, {"sses", "ss"}, {"xes", "x"}, {"ches", "ch"}, {"shes", "sh"}, {"s", ""}} {
		if stem, found := strings.CutSuffix(kind, end[0]); found {
			return stem + end[1]
		}
	}
	return kind
}
