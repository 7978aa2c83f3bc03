package setpoint

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// controller is what For and Compose have in common.
type controller struct {
	app *App
	// goType is the Go type of the objects, and kind their kind.
	goType reflect.Type
	kind   kind
	// explicitName is the name of the option Name. derivedName is set if another
	// controller has the same kind.
	explicitName, derivedName string
	labels, fields            string
	namespaces                []string
	workers                   int
	// runNamespaces limit the running app.
	runNamespaces []string
	// owns, applies, deletes and reads are the declared kinds.
	owns, applies, deletes, reads []kind
	evicts                        bool
	// related are the kinds of Watches; isRelated means that another controller watches this one.
	related   []relatedKind
	isRelated bool
	// pending are declarations to resolve when the kinds of the app are known.
	pending  []pendingKind
	problems []error
	logic    logic
	// indexes are those of the kind, and watches fill them.
	indexes []indexer
	watches instances[[]*cache.View]
}

// logic is what For and Compose each add to a controller.
type logic interface {
	// checkFunctions returns all problems of the functions.
	checkFunctions() []error
	functions() []namedFunction
	// stateless reports whether the functions write no metadata to objects.
	stateless() bool
	// compile returns the programs of the functions.
	compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error)
}

// namedFunction is a hook.Handler, a hook.Hook or a hook.Admitter.
type namedFunction struct {
	name     string
	function any
}

// pendingKind is a kind declared by an object, and the list to add it to.
type pendingKind struct {
	verb string
	obj  any
	list *[]kind
}

// register adds the controller to an app.
func (c *controller) register(app *App, goType reflect.Type, options []KindOption, l logic) {
	c.app, c.goType, c.logic = app, goType, l
	for _, o := range options {
		o.applyToKind(c)
	}
	app.controllers = append(app.controllers, c)
}

func (c *controller) goController() manager.GoController {
	return manager.GoController{Name: c.name(), Compile: c.logic.compile}
}

// runs reports whether the controller does something itself, and is not only watched by another
// one.
func (c *controller) runs() bool {
	return !c.isRelated || !c.logic.stateless() || len(c.logic.functions())+len(c.indexes) > 0
}

// declare adds kinds to resolve when the kinds of the app are known.
func (c *controller) declare(verb string, to *[]kind, objs []any) {
	for _, obj := range objs {
		c.pending = append(c.pending, pendingKind{verb, obj, to})
	}
}

// resolveKinds resolves the declared kinds.
func (c *controller) resolveKinds() {
	known, err := c.app.kinds()
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	if c.kind == (kind{}) {
		if c.kind, err = known.ofType(c.goType); err != nil {
			c.problems = append(c.problems, err)
		}
	}
	for _, p := range c.pending {
		k, err := known.of(p.obj)
		if err != nil {
			c.problems = append(c.problems, fmt.Errorf("%s: %w", p.verb, err))
			continue
		}
		*p.list = append(*p.list, k)
	}
	c.pending = nil
}

// name is the name of the controller in logs, metrics and health.
func (c *controller) name() string { return c.app.name + "/" + c.shortName() }

// shortName is its name within the app.
func (c *controller) shortName() string {
	switch {
	case c.explicitName != "":
		return c.explicitName
	case c.derivedName != "":
		return c.derivedName
	case c.kind.kind != "":
		return strings.ToLower(c.kind.kind)
	}
	return c.goType.String()
}

// unqualified removes the name of the controller or its kind from the name of a function,
// as in "team/sync".
func (c *controller) unqualified(name string) string {
	if rest, ours := strings.CutPrefix(name, c.shortName()+"/"); ours {
		return rest
	}
	if c.explicitName != "" {
		return name
	}
	return strings.TrimPrefix(name, strings.ToLower(c.kind.kind)+"/")
}

// markerName is the suffix of the annotation and the finalizer on objects.
func (c *controller) markerName() string {
	if c.explicitName == "" {
		return c.app.name
	}
	return c.app.name + "-" + c.explicitName
}

// recordPrefix begins the name of the annotation that records what handlers have handled.
const recordPrefix = "handled-by-"

// The names of the controller on objects.
func (c *controller) recordAnnotation() string {
	return "setpoint.dev/" + recordPrefix + c.markerName()
}
func (c *controller) finalizer() string    { return "setpoint.dev/" + c.markerName() }
func (c *controller) fieldManager() string { return "setpoint-" + c.app.name + "-" + c.shortName() }

func (c *controller) check() []error {
	c.resolveKinds()
	problems := append([]error(nil), c.problems...)
	say := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: "+format, append([]any{c.name()}, args...)...))
	}
	if _, err := labels.Parse(c.labels); err != nil {
		say("Labels: %w", err)
	}
	if _, err := fields.ParseSelector(c.fields); err != nil {
		say("FieldSelector: %w", err)
	}
	if c.explicitName != "" && len(validation.IsDNS1123Label(c.explicitName)) > 0 {
		say("Name: must be lower-case letters, digits and dashes")
	}
	if most := validation.DNS1123LabelMaxLength - len(recordPrefix); len(c.markerName()) > most {
		say("Name: %s is longer than %d characters", c.markerName(), most)
	}
	return append(problems, c.logic.checkFunctions()...)
}

// limitNamespaces limits the controller to namespaces; none means all.
func (c *controller) limitNamespaces(namespaces []string) error {
	c.runNamespaces = distinct(c.namespaces)
	switch namespaces = distinct(namespaces); {
	case slices.Contains(slices.Concat(c.runNamespaces, namespaces), ""):
		return fmt.Errorf("%s: a namespace name is empty", c.name())
	case len(namespaces) == 0:
		return nil
	case len(c.runNamespaces) == 0:
		c.runNamespaces = namespaces
		return nil
	}
	c.runNamespaces = slices.DeleteFunc(c.runNamespaces, func(one string) bool { return !slices.Contains(namespaces, one) })
	if len(c.runNamespaces) == 0 {
		return fmt.Errorf("%s: limited to the namespaces %v, and the app to %v", c.name(), c.namespaces, namespaces)
	}
	return nil
}

// namespacesFor returns the namespaces of a limited app for objects of a kind and what is
// written for them; none mean all, as for cluster-scoped objects.
func (c *controller) namespacesFor(handled object.Resource) []string {
	if !handled.Namespaced {
		return nil
	}
	return c.runNamespaces
}

func distinct(names []string) []string {
	var some []string
	for _, name := range names {
		if !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	return some
}
