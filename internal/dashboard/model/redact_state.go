package model

import (
	"slices"
)

// hiddenError is said in place of an error that may quote what the reader may not read.
const hiddenError = "you may not read what it says, for that is about "

// RedactState is how an object is doing without what its reader may not read: errors that
// may quote objects of other kinds are for who may read those. Who gets it may read the
// object itself. The family is left as it is.
//
// may says whether objects of a kind in a namespace may be read.
func RedactState(objectState ObjectState, may func(kind Kind, namespace string) bool) ObjectState {
	hidden := hiddenKinds(objectState.Mentions, objectState.Ref, may)
	if hidden == "" {
		return objectState
	}
	objectState.Fault = nil
	for _, text := range [...]*string{&objectState.Error, &objectState.Conflict} {
		if *text != "" {
			*text = hiddenError + hidden
		}
	}
	return objectState
}

// hiddenKinds are the kinds among places that may not be read, in words; "" if all may.
func hiddenKinds(places []Location, own Ref, may func(Kind, string) bool) string {
	var hidden []string
	for _, p := range places {
		itself := p.Group == own.Group && p.Kind.Kind == own.Kind.Kind && p.Namespace == own.Namespace
		if !itself && !slices.Contains(hidden, p.Kind.Kind) && !may(p.Kind, p.Namespace) {
			hidden = append(hidden, p.Kind.Kind)
		}
	}
	return joinAnd(hidden)
}

// AccessCheck says whether a reader has a right, as the API server has it: a verb on the
// objects of a kind, in a namespace or in all of them, or on one.
type AccessCheck func(verb string, kind Kind, namespace, name string) bool

// CanView says whether a reader may know of a controller: who may get the object that
// declares it, or list one of the kinds it handles. One of which no kinds are known has
// nothing to hide, unless it is declared.
func CanView(c *Controller, may AccessCheck) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	return c.Declared == nil && len(c.Kinds) == 0 ||
		slices.ContainsFunc(c.Kinds, func(k Kind) bool { return may("list", k, "", "") })
}

// RedactController is a controller without what its reader may not read, which is said
// where it would be: what it fails with is for who may get the object that declares it,
// the status of which says that too, or else list all kinds that it handles and writes.
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
	if len(c.Notes) > 0 {
		c.Notes = []string{hiddenMessage}
	}
	return c
}

// hiddenMessage is said in place of what a controller says of its objects.
const hiddenMessage = "you may not read what it says"

func canReadErrors(c *Controller, may AccessCheck) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	all := slices.Concat(c.Kinds, c.Children)
	return len(c.Kinds) > 0 && !slices.ContainsFunc(all, func(k Kind) bool { return !may("list", k, "", "") })
}

// Readable are those of some kinds that may be read in a namespace, see Query.Reads.
func Readable(kinds []Kind, namespace string, may func(kind Kind, namespace string) bool) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool {
		where := ""
		if k.Namespaced {
			where = namespace
		}
		return !may(k, where)
	})
}
