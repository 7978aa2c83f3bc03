package setpoint

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// controller is what a For and a Compose have in common.
type controller struct {
	app *App
	// typed is the Go type of the objects, kind which kind they are.
	typed reflect.Type
	kind  kind
	// given is the name that an option gave it, derived one that tells it from another
	// part of its kind.
	given, derived string
	labels, fields string
	namespaces     []string
	workers        int
	// within are the namespaces of a run.
	within []string
	// owns, applies, deletes and reads are kinds of objects, as they were declared.
	owns, applies, deletes, reads []kind
	// evicts says that pods may be evicted.
	evicts bool
	// pending are declarations that wait for the app's kinds to be known.
	pending  []pending
	problems []error
}

// pending is a kind that an object stands for, and what to do with it.
type pending struct {
	verb string
	like any
	to   *[]kind
}

func newController[T any](app *App, options []KindOption) controller {
	c := controller{app: app, typed: reflect.TypeFor[T]()}
	for _, o := range options {
		o.ofKind(&c)
	}
	return c
}

// declare notes kinds until the app's are known.
func (c *controller) declare(verb string, to *[]kind, likes []any) {
	for _, like := range likes {
		c.pending = append(c.pending, pending{verb, like, to})
	}
}

// resolve finds out about the kinds. What it says is said once.
func (c *controller) resolve() {
	known, err := c.app.kinds()
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	if c.kind == (kind{}) {
		if c.kind, err = known.ofType(c.typed); err != nil {
			c.problems = append(c.problems, err)
		}
	}
	for _, p := range c.pending {
		k, err := known.of(p.like)
		if err != nil {
			c.problems = append(c.problems, fmt.Errorf("%s: %w", p.verb, err))
			continue
		}
		*p.to = append(*p.to, k)
	}
	c.pending = nil
}

// name is the controller's in logs, metrics and health.
func (c *controller) name() string { return c.app.name + "/" + c.short() }

// short is its name within the app.
func (c *controller) short() string {
	switch {
	case c.given != "":
		return c.given
	case c.derived != "":
		return c.derived
	case c.kind.kind != "":
		return strings.ToLower(c.kind.kind)
	}
	return c.typed.String()
}

// inPart is the name of a function without that of its controller or its kind before it,
// as in "team/sync".
func (c *controller) inPart(name string) string {
	if rest, ours := strings.CutPrefix(name, c.short()+"/"); ours {
		return rest
	}
	if c.given != "" {
		return name
	}
	return strings.TrimPrefix(name, strings.ToLower(c.kind.kind)+"/")
}

// mark is what the annotation and the finalizer on objects are named after.
func (c *controller) mark() string {
	if c.given == "" {
		return c.app.name
	}
	return c.app.name + "-" + c.given
}

// recordPrefix leads the name of the annotation that keeps what handlers have
// dealt with.
const recordPrefix = "handled-by-"

// The names that a controller goes by on objects.
func (c *controller) record() string    { return "setpoint.dev/" + recordPrefix + c.mark() }
func (c *controller) finalizer() string { return "setpoint.dev/" + c.mark() }
func (c *controller) manager() string   { return "setpoint-" + c.app.name + "-" + c.short() }

// check is all that is wrong with it.
func (c *controller) check() []error {
	c.resolve()
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
	if c.given != "" && len(validation.IsDNS1123Label(c.given)) > 0 {
		say("Name: must be lower-case letters, digits and dashes")
	}
	if most := validation.DNS1123LabelMaxLength - len(recordPrefix); len(c.mark()) > most {
		say("Name: %s is longer than %d characters", c.mark(), most)
	}
	return problems
}

// confine limits a run to namespaces; to all if there is none.
func (c *controller) confine(namespaces []string) error {
	c.within = distinct(c.namespaces)
	switch namespaces = distinct(namespaces); {
	case slices.Contains(slices.Concat(c.within, namespaces), ""):
		return fmt.Errorf("%s: the name of a namespace is empty", c.name())
	case len(namespaces) == 0:
		return nil
	case len(c.within) == 0:
		c.within = namespaces
		return nil
	}
	c.within = slices.DeleteFunc(c.within, func(one string) bool { return !slices.Contains(namespaces, one) })
	if len(c.within) == 0 {
		return fmt.Errorf("%s: is limited to the namespaces %v, of which none is among those of this run, %v", c.name(), c.namespaces, namespaces)
	}
	return nil
}

// distinct are the names, each once.
func distinct(names []string) []string {
	var some []string
	for _, name := range names {
		if !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	return some
}
