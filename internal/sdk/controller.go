package sdk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// Controller is what For and Compose have in common. Options set its exported fields.
type Controller struct {
	Kind kinds.Kind
	// Name is the name within the app; its kind if empty.
	Name string
	// Labels, Fields and Namespaces select objects.
	Labels, Fields string
	Namespaces     []string
	// Workers is the maximum number of concurrent reconciles; that of the app if 0.
	Workers int

	app *App
	// goType is the Go type of the objects.
	goType reflect.Type
	// derivedName is set if another controller has the same kind.
	derivedName string
	// runNamespaces limit the running app.
	runNamespaces []string
	// owns, applies, deletes and reads are the declared kinds.
	owns, applies, deletes, reads []kinds.Kind
	evicts                        bool
	// related are the kinds of Watches; isRelated means that another controller watches this one.
	related   []relatedKind
	isRelated bool
	// pending are declarations to resolve when the kinds of the app are known.
	pending  []pendingKind
	problems problems
	logic    logic
	// indexes are those of the kind, and watches fill them.
	indexes []indexer
	watches instances[[]*cache.View]
	// memories are what the functions keep for objects.
	memories memories
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

// relatedKind is a kind of related objects, with the function of Watches.
type relatedKind struct {
	of *Controller
	// handledBy returns the handled objects of a related one.
	handledBy func(*object.Object) ([]types.NamespacedName, error)
}

// mapObject returns the handled objects of a related one. A panic of the function is an error.
func (k relatedKind) mapObject(o *object.Object) (names []types.NamespacedName, err error) {
	err = failure.Recover("the function of Watches", func() (err error) {
		names, err = k.handledBy(o)
		return err
	})
	return names, err
}

// mapAndLog is mapObject in a cluster.
func (k relatedKind) mapAndLog(o *object.Object) []types.NamespacedName {
	names, err := k.mapObject(o)
	if err != nil {
		stack, _ := failure.PanicStack(err)
		k.of.app.logger().Error("related object not mapped", "object", o.Ref().String(), "error", failure.OneLine(err), "stack", stack)
	}
	return names
}

// pendingKind is a kind declared by an object, and the list to add it to.
type pendingKind struct {
	verb string
	obj  any
	list *[]kinds.Kind
}

func (c *Controller) register(app *App, goType reflect.Type, l logic) {
	c.app, c.goType, c.logic = app, goType, l
	app.controllers = append(app.controllers, c)
}

// AddProblem adds what is wrong with the app.
func (c *Controller) AddProblem(format string, args ...any) { c.app.AddProblem(format, args...) }

// runs reports whether the controller does something itself, and is not only watched by another
// one.
func (c *Controller) runs() bool {
	return !c.isRelated || !c.logic.stateless() || len(c.logic.functions())+len(c.indexes) > 0
}

// Owns declares kinds of objects, each by an object of it, that the functions apply and the handled object owns.
func (c *Controller) Owns(objs ...any) { c.declare("Owns", &c.owns, objs) }

// Applies declares kinds of objects that the functions apply besides those in Owns.
func (c *Controller) Applies(objs ...any) { c.declare("Applies", &c.applies, objs) }

// Deletes declares kinds of objects that the functions delete besides those in Owns.
func (c *Controller) Deletes(objs ...any) { c.declare("Deletes", &c.deletes, objs) }

// Evicts declares that the functions evict pods.
func (c *Controller) Evicts() { c.evicts = true }

// Reads declares kinds of objects that the functions read.
func (c *Controller) Reads(objs ...any) { c.declare("Reads", &c.reads, objs) }

// declare adds kinds to resolve when the kinds of the app are known.
func (c *Controller) declare(verb string, to *[]kinds.Kind, objs []any) {
	for _, obj := range objs {
		c.pending = append(c.pending, pendingKind{verb, obj, to})
	}
}

func (c *Controller) resolveKinds() {
	known := c.app.kinds()
	if c.Kind == (kinds.Kind{}) {
		var err error
		c.Kind, err = known.OfType(c.goType)
		c.problems.add(err)
	}
	for _, p := range c.pending {
		k, err := known.Of(p.obj)
		if err != nil {
			c.problems.AddProblem("%s: %w", p.verb, err)
			continue
		}
		*p.list = append(*p.list, k)
	}
	c.pending = nil
}

// name is the name of the controller in logs, metrics and health.
func (c *Controller) name() string { return c.app.name + "/" + c.shortName() }

// shortName is its name within the app.
func (c *Controller) shortName() string {
	switch {
	case c.Name != "":
		return c.Name
	case c.derivedName != "":
		return c.derivedName
	case c.Kind.Name != "":
		return strings.ToLower(c.Kind.Name)
	}
	return c.goType.String()
}

// unqualified removes the name of the controller or its kind from the name of a function,
// as in "team/sync".
func (c *Controller) unqualified(name string) string {
	if rest, ours := strings.CutPrefix(name, c.shortName()+"/"); ours {
		return rest
	}
	if c.Name != "" {
		return name
	}
	return strings.TrimPrefix(name, strings.ToLower(c.Kind.Name)+"/")
}

// markerName is the suffix of the annotation and the finalizer on objects.
func (c *Controller) markerName() string {
	if c.Name == "" {
		return c.app.name
	}
	return c.app.name + "-" + c.Name
}

// The names of the controller on objects.
func (c *Controller) finalizer() string { return "setpoint.dev/" + c.markerName() }

func (c *Controller) fieldManager() string { return "setpoint-" + c.app.name + "-" + c.shortName() }

func (c *Controller) check() []error {
	c.resolveKinds()
	all := slices.Clone(c.problems)
	var p problems
	_, err := labels.Parse(c.Labels)
	p.when(err != nil, "Labels: %w", err)
	_, err = fields.ParseSelector(c.Fields)
	p.when(err != nil, "FieldSelector: %w", err)
	p.when(c.Name != "" && len(validation.IsDNS1123Label(c.Name)) > 0, "Name: must be lower-case letters, digits and dashes")
	most := validation.DNS1123LabelMaxLength - len(lasthandled.NamePrefix)
	p.when(len(c.markerName()) > most, "Name: %s is longer than %d characters", c.markerName(), most)
	return append(append(all, p.of(c.name())...), c.logic.checkFunctions()...)
}

// problems are what is wrong with an app, which Run reports.
type problems []error

// AddProblem adds what is wrong.
func (p *problems) AddProblem(format string, args ...any) {
	*p = append(*p, fmt.Errorf(format, args...))
}

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

func (p *problems) when(wrong bool, format string, args ...any) {
	if wrong {
		p.AddProblem(format, args...)
	}
}

// of returns the problems with the name of what has them.
func (p problems) of(name string) []error {
	return lists.Map(p, func(err error) error { return fmt.Errorf("%s: %w", name, err) })
}

// limitNamespaces limits the controller to namespaces; none means all.
func (c *Controller) limitNamespaces(namespaces []string) error {
	c.runNamespaces = lists.Union(nil, c.Namespaces)
	switch namespaces = lists.Union(nil, namespaces); {
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
		return fmt.Errorf("%s: limited to the namespaces %v, and the app to %v", c.name(), c.Namespaces, namespaces)
	}
	return nil
}

// namespacesFor returns the namespaces of a limited app for objects of a kind and what is
// written for them; none mean all, as for cluster-scoped objects.
func (c *Controller) namespacesFor(handled object.Resource) []string {
	if !handled.Namespaced {
		return nil
	}
	return c.runNamespaces
}

// checkOnce reports a function that is nil or set twice.
func (c *Controller) checkOnce(verb string, isSet, isNil bool) {
	c.problems.when(isSet || isNil, "%s: set one function, which must not be nil", verb)
}

func validateName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New("the name must be lower-case letters, digits and dashes, at most 63")
	}
	return nil
}

// declaresHandlerAccess reports whether something is declared that only handlers do.
func (c *Controller) declaresHandlerAccess() bool {
	return len(c.owns)+len(c.applies)+len(c.deletes)+len(c.reads) > 0 || c.evicts
}
