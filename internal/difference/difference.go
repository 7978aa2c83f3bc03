// Package difference compares two responses of a hook to one request, and says what the difference leads to.
//
// It calls nothing: a rollout compares the responses of two versions of the logic.
package difference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Consequence is what a difference between two responses leads to.
type Consequence string

// The consequences, the most severe first.
const (
	WouldDelete   Consequence = "WouldDelete"
	WouldCreate   Consequence = "WouldCreate"
	WouldUpdate   Consequence = "WouldUpdate"
	StatusOnly    Consequence = "StatusOnly"
	Failed        Consequence = "Failed"
	NotComparable Consequence = "NotComparable"
)

// Effect is one consequence of a difference.
type Effect struct {
	Consequence Consequence
	// Text says what, such as "Pod shop/a: spec.image is \"b\", was \"a\"".
	Text string
}

// Severity orders consequences, the most severe first.
func (c Consequence) Severity() int {
	return slices.Index([]Consequence{WouldDelete, WouldCreate, WouldUpdate, StatusOnly, Failed, NotComparable}, c)
}

// Comparison compares two responses of a hook to one request.
type Comparison struct {
	Before, After Response
	// ChildrenField is the field with all desired children.
	ChildrenField string
	// Namespace is that of the object that the request is about.
	Namespace string
	// Plan returns the observed children, and what Setpoint would write of them because of After.
	Plan func() ([]*object.Object, plan.Plan, error)
}

// Effects returns what is different, the most severe first.
func (c *Comparison) Effects() []Effect {
	e := &effects{Comparison: c}
	switch was, is := c.Before[FieldError], c.After[FieldError]; {
	case was != nil && is == nil:
		e.add(NotComparable, "the version before failed: %v", was)
	case was == nil && is != nil:
		e.add(Failed, "%v", is)
	case was != nil && fmt.Sprint(was) != fmt.Sprint(is):
		e.add(StatusOnly, "the error is %q, was %q", is, was)
	case was == nil:
		e.compare()
	}
	slices.SortStableFunc(e.list, func(a, b Effect) int { return cmp.Compare(a.Consequence.Severity(), b.Consequence.Severity()) })
	return e.list
}

// effects collects the effects of a Comparison.
type effects struct {
	*Comparison

	list []Effect
}

func (e *effects) add(what Consequence, format string, args ...any) {
	e.list = append(e.list, Effect{what, fmt.Sprintf(format, args...)})
}

// compare compares two responses that are no errors.
func (e *effects) compare() {
	was, is := byName(e.Before, e.ChildrenField), byName(e.After, e.ChildrenField)
	for _, field := range lists.Keys(was, is) {
		switch changes := changesOf(only(field, was), only(field, is)); {
		case len(changes) == 0 || field == FieldLogicVersion:
		case field == e.ChildrenField:
			from, _ := was[field].(map[string]any)
			to, _ := is[field].(map[string]any)
			e.compareChildren(from, to)
		default:
			for _, change := range changes {
				e.list = append(e.list, Effect{e.consequenceOf(field), describeChange(change)})
			}
		}
	}
}

// consequenceOf returns what the change of a field leads to that holds no objects.
func (e *effects) consequenceOf(field string) Consequence {
	switch field {
	case "finalized":
		if e.After[field] == true {
			return WouldDelete
		}
		return WouldUpdate
	case "labels", "annotations":
		return WouldUpdate
	}
	return StatusOnly
}

// describeChange returns such as "status.ready is 1, was 2".
func describeChange(c object.FieldChange) string {
	switch {
	case c.From == nil:
		return fmt.Sprintf("%s is %s, was absent", c.Path, shorten(c.To))
	case c.To == nil:
		return fmt.Sprintf("%s is absent, was %s", c.Path, shorten(c.From))
	}
	return fmt.Sprintf("%s is %s, was %s", c.Path, shorten(c.To), shorten(c.From))
}

// maxShown is the longest value in a description.
const maxShown = 80

func shorten(value []byte) string { return failure.Truncate(string(value), maxShown) }

// compareChildren compares the children of both responses, and what Setpoint would do.
func (e *effects) compareChildren(was, is map[string]any) {
	planned, err := e.plans()
	if err != nil {
		e.add(Failed, "Setpoint would reject the response: %v", err)
		return
	}
	for _, name := range lists.Keys(was, is) {
		before, desired := was[name]
		after, desiredNow := is[name]
		switch {
		case !desiredNow && planned.observed[name]:
			e.add(WouldDelete, "delete %s", name)
		case !desiredNow:
			e.add(WouldDelete, "%s is not desired any more", name)
		case !desired && planned.observed[name]:
			e.add(WouldUpdate, "%s stays, was deleted", name)
		case !desired:
			e.add(WouldCreate, "create %s", name)
		default:
			e.compareChild(name, planned, before, after)
		}
	}
}

// maxShownChanges is how many changes of one child are described: both halves of a renamed field.
const maxShownChanges = 2

func (e *effects) compareChild(name string, planned plans, before, after any) {
	from, _ := before.(map[string]any)
	to, _ := after.(map[string]any)
	changes := object.KeyedChanges(from, to)
	if len(changes) == 0 {
		return
	}
	shown := lists.Map(changes[:min(len(changes), maxShownChanges)], describeChange)
	text := name + ": " + strings.Join(shown, "; ")
	if more := len(changes) - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	switch {
	case planned.deleted[name]:
		e.add(WouldDelete, "delete and create again %s", text)
	case planned.observed[name] && !planned.written[name]:
		e.add(StatusOnly, "%s (nothing is written now)", text)
	default:
		e.add(WouldUpdate, "update %s", text)
	}
}

// plans are what Setpoint would write because of the response, by the names of children.
type plans struct{ observed, deleted, written map[string]bool }

func (e *effects) plans() (plans, error) {
	p := plans{observed: map[string]bool{}, deleted: map[string]bool{}, written: map[string]bool{}}
	observed, todo, err := e.Plan()
	if err != nil {
		return p, err
	}
	nameOf := func(o *object.Object) string {
		decoded, _ := object.Decode(o.JSON()) // It was parsed.
		DropNamespace(decoded, e.Namespace)
		return objectName(decoded)
	}
	for _, o := range observed {
		p.observed[nameOf(o)] = true
	}
	for _, action := range todo.Actions() {
		if name := nameOf(cmp.Or(action.Before, action.After)); action.Verb == plan.Delete {
			p.deleted[name] = true
		} else {
			p.written[name] = true
		}
	}
	return p, nil
}
