package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/preview"
)

// readPlanFiles reads controllers, and objects that one may care for.
func readPlanFiles(files []string) (controllers, objects []*object.Object, err error) {
	documents, err := manifest.Read(files)
	if err != nil {
		return nil, nil, err
	}
	for _, document := range documents {
		text, err := document.Object.MarshalJSON()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", document, err)
		}
		one, err := object.Parse(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", document, err)
		}
		if _, is := host.KindOf(one); is {
			controllers = append(controllers, one)
			continue
		}
		objects = append(objects, one)
	}
	return controllers, objects, nil
}

// scattered says that some objects are in other namespaces.
func scattered(objects []*object.Object, namespace string) bool {
	return slices.ContainsFunc(objects, func(o *object.Object) bool { return o.Namespace() != "" && o.Namespace() != namespace })
}

// shortNames are those of our CRDs.
func shortNames() map[string]string {
	return map[string]string{
		"cc": "compositecontroller", "cctl": "compositecontroller", "spcc": "compositecontroller.setpoint.dev",
		"dec": "decoratorcontroller", "decorators": "decoratorcontroller", "spdc": "decoratorcontroller.setpoint.dev",
		"sphc": "handlercontroller.setpoint.dev", "spac": "admissioncontroller.setpoint.dev",
	}
}

// kindsMeant are the kinds of controllers that a word before "/" may mean.
func kindsMeant(word string) []compile.Kind {
	first, group, qualified := strings.Cut(strings.ToLower(word), ".")
	if long, short := shortNames()[first]; short {
		// A short name of one group finds nothing in another.
		if kind, own, _ := strings.Cut(long, "."); qualified && (own == "" || own == group) {
			word = kind + "." + group
		} else if !qualified {
			word = long
		}
	}
	var meant []compile.Kind
	for _, kind := range compile.Kinds() {
		if preview.Names(kind.Resource, word) {
			meant = append(meant, kind)
		}
	}
	return meant
}

// isController says whether an argument names a controller, by its kind.
func isController(arg string) bool {
	word, _, found := strings.Cut(arg, "/")
	return found && len(kindsMeant(word)) > 0
}

// findController reads a controller of the cluster.
func findController(ctx context.Context, h *host.Host, arg string) (*object.Object, error) {
	word, name, _ := strings.Cut(arg, "/")
	var found []*object.Object
	for _, kind := range kindsMeant(word) {
		declared, err := h.Find(ctx, kind.Resource, "", name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", arg, err)
		}
		if declared != nil {
			found = append(found, declared)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no %s in the cluster", arg)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, one := range found {
		names = append(names, fmt.Sprintf("%s.%s/%s", strings.ToLower(one.Kind()), object.GroupOf(one.APIVersion()), name))
	}
	return nil, hinted{errors.New(arg + " is in several groups"), "write one of " + strings.Join(names, ", ")}
}
