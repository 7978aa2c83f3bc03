package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
)

// Limits of declarations.
const (
	maxDeclarationBytes = 4 << 20
	maxControllers      = 256
	maxSelectors        = 256
)

// Declaration is what an operator declares to Setpoint.
type Declaration struct {
	// Name is the name of the operator, in logs, events and for its Lease.
	Name string `json:"name"`
	// Controllers are HandlerControllers and AdmissionControllers.
	Controllers []declaredController `json:"controllers"`
	// Namespaces limit the operator; none mean all.
	Namespaces []string `json:"namespaces"`
	// Notifications and Health are paths of the process; "" for none.
	Notifications string `json:"notifications"`
	Health        string `json:"health"`
	// Merged is a path below which the process declares a controller with the handlers of several, by
	// their names separated by mergedSeparator, for kinds that all of them select; "" if controllers
	// are independent.
	Merged string `json:"merged"`
	// UnsetBy are startup handlers that were not called and may change settings; empty for an operator
	// that runs.
	UnsetBy []string `json:"unsetBy"`
	// Instance differs after each start of the process.
	Instance string `json:"instance"`

	// text is the declaration as the process sent it.
	text string
}

// decodeDeclaration decodes and checks a declaration. The error has all problems, each with
// its field.
func decodeDeclaration(data []byte) (*Declaration, error) {
	d := Declaration{text: string(data)}
	if err := decodeStrictly(data, &d); err != nil {
		return nil, fmt.Errorf("the declaration of the operator: %w", err)
	}
	if problems := d.check(); len(problems) > 0 {
		return nil, fmt.Errorf("the declaration of the operator:\n%w", errors.Join(problems...))
	}
	return &d, nil
}

func (d *Declaration) check() []error {
	var problems []error
	say := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if wrong := validation.IsDNS1123Label(d.Name); len(wrong) > 0 {
		say("name: %q: %s", d.Name, wrong[0])
	}
	for field, path := range map[string]string{"notifications": d.Notifications, "health": d.Health, "merged": d.Merged} {
		if path != "" && !strings.HasPrefix(path, "/") {
			say("%s: %q must be a path that starts with /", field, path)
		}
	}
	for i, namespace := range d.Namespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			say("namespaces[%d]: %q: %s", i, namespace, wrong[0])
		}
	}
	switch {
	case len(d.Controllers) == 0:
		say("controllers: the operator has no handlers of objects and no admission webhooks")
	case len(d.Controllers) > maxControllers:
		say("controllers: must be at most %d, not %d", maxControllers, len(d.Controllers))
		return problems
	}
	seen := map[string]bool{}
	for i := range d.Controllers {
		c := &d.Controllers[i]
		c.notifications = d.Notifications
		field := fmt.Sprintf("controllers[%d]", i)
		problems = append(problems, c.check(field)...)
		if name := c.Kind + "/" + c.Metadata.Name; seen[name] {
			say("%s.metadata.name: %s is declared before", field, name)
		} else {
			seen[name] = true
		}
	}
	return problems
}

// check returns the problems of a controller, and finds its kind.
func (c *declaredController) check(field string) []error {
	kind, known := compile.KindNamed(c.APIVersion, c.Kind)
	c.kind = kind
	if !known || !slices.Contains([]string{api.HandlerControllerKind, api.AdmissionControllerKind}, c.Kind) {
		return []error{fmt.Errorf("%s: must be a HandlerController or AdmissionController of %s, not %s of %s",
			field, api.GroupVersion, c.Kind, c.APIVersion)}
	}
	var problems []error
	if wrong := validation.IsDNS1123Subdomain(c.Metadata.Name); len(wrong) > 0 {
		problems = append(problems, fmt.Errorf("%s.metadata.name: %q: %s", field, c.Metadata.Name, wrong[0]))
	}
	if len(c.Selectors) > maxSelectors {
		problems = append(problems, fmt.Errorf("%s.selectors: must be at most %d, not %d", field, maxSelectors, len(c.Selectors)))
	}
	if len(c.Selectors) > 0 && c.Kind != api.HandlerControllerKind {
		problems = append(problems,
			fmt.Errorf("%s.selectors: only a HandlerController has them; a rule of an AdmissionController has a selector", field))
	}
	for j := range c.Selectors {
		if err := c.Selectors[j].check(); err != nil {
			problems = append(problems, fmt.Errorf("%s.selectors[%d]: %w", field, j, err))
		}
	}
	return append(problems, c.checkSpec(field)...)
}
