package inspect

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// RedactState removes errors that may quote objects of kinds the reader may not read. The
// reader may read the object itself. Children are not redacted.
//
// may reports whether the reader may get objects of a kind in a namespace.
func RedactState(objectState ObjectState, may func(kind object.Kind, namespace string) bool) ObjectState {
	hidden := hiddenKinds(objectState.Mentions, objectState.Ref, may)
	if hidden == "" {
		return objectState
	}
	objectState.Fault = nil
	for _, text := range [...]*string{&objectState.Error, &objectState.Conflict} {
		if *text != "" {
			*text = hiddenMessage + ": " + hidden
		}
	}
	if objectState.Shadow != nil {
		objectState.Shadow = []string{hiddenMessage + ": " + hidden}
	}
	return objectState
}

// hiddenKinds returns the kinds at locations that may not be read, as a list; "" if all
// may.
func hiddenKinds(places []Location, own object.Ref, may func(object.Kind, string) bool) string {
	var hidden []string
	for _, p := range places {
		itself := p.Group == own.Group && p.Kind.Kind == own.Kind.Kind && p.Namespace == own.Namespace
		if !itself && !slices.Contains(hidden, p.Kind.Kind) && !may(p.Kind, p.Namespace) {
			hidden = append(hidden, p.Kind.Kind)
		}
	}
	return joinAnd(hidden)
}

// AccessCheck reports whether the reader has a permission: a verb on a kind, in a namespace
// or in all if it is "", or on one object.
type AccessCheck func(verb string, kind object.Kind, namespace, name string) bool

// CanView reports whether the reader may see a controller: if they may get the object that
// declares it, or list one of its kinds. A controller of a Go program without known kinds
// is visible.
func CanView(c *Controller, may AccessCheck) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	return c.Declared == nil && len(c.Kinds) == 0 ||
		slices.ContainsFunc(c.Kinds, func(k object.Kind) bool { return may("list", k, "", "") })
}

// RedactController hides the failures and conditions of a controller, unless the reader may
// get the object that declares it, whose status has them too, or list all kinds that it
// manages and writes. If those are unknown, because it does not run, that is every kind.
func RedactController(c Controller, may AccessCheck) Controller {
	if canReadErrors(&c, may) {
		return c
	}
	if c.Last != nil {
		c.Last = &Failure{Message: hiddenMessage, Time: c.Last.Time}
	}
	c.Conditions = slices.Clone(c.Conditions)
	for i := range c.Conditions {
		if c.Conditions[i].Message != "" {
			c.Conditions[i].Message = hiddenMessage
		}
	}
	if c.Rollout != nil {
		c.Rollout = c.Rollout.DeepCopy()
		c.Rollout.Message, c.Rollout.Blocked = hiddenMessage, ""
		if shadow := c.Rollout.Shadow; shadow != nil {
			shadow.Failure, shadow.Examples = "", nil
		}
	}
	if len(c.Notes) > 0 {
		c.Notes = []string{hiddenMessage}
	}
	return c
}

// hiddenMessage replaces messages about objects.
const hiddenMessage = "hidden, because it may quote objects that you cannot get"

func canReadErrors(c *Controller, may AccessCheck) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	all := slices.Concat(c.Kinds, c.Children)
	if len(c.Kinds) == 0 {
		all = []object.Kind{{Group: "*", Plural: "*"}}
	}
	return !slices.ContainsFunc(all, func(k object.Kind) bool { return !may("list", k, "", "") })
}

// Readable returns the kinds that may be read in a namespace, for Query.ReadableKinds.
func Readable(kinds []object.Kind, namespace string, may func(kind object.Kind, namespace string) bool) []object.Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k object.Kind) bool {
		where := ""
		if k.Namespaced {
			where = namespace
		}
		return !may(k, where)
	})
}
