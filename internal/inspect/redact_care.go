package inspect

import (
	"slices"
)

// withheld is said in place of an error that may quote what the reader may not read.
const withheld = "you may not read what it says, for that is about "

// RedactCare is how an object is doing without what its reader may not read: errors that
// may quote objects of other kinds are for who may read those. Who gets it may read the
// object itself. The family is left as it is.
//
// may says whether objects of a kind in a namespace may be read.
func RedactCare(care Care, may func(kind Kind, namespace string) bool) Care {
	hidden := unreadAmong(care.Among, care.Ref, may)
	if hidden == "" {
		return care
	}
	care.Fault = nil
	for _, text := range [...]*string{&care.Error, &care.Unrest} {
		if *text != "" {
			*text = withheld + hidden
		}
	}
	return care
}

// unreadAmong are the kinds among places that may not be read, in words; "" if all may.
func unreadAmong(places []Place, own Ref, may func(Kind, string) bool) string {
	var hidden []string
	for _, p := range places {
		itself := p.Group == own.Group && p.Kind.Kind == own.Kind.Kind && p.Namespace == own.Namespace
		if !itself && !slices.Contains(hidden, p.Kind.Kind) && !may(p.Kind, p.Namespace) {
			hidden = append(hidden, p.Kind.Kind)
		}
	}
	return listed(hidden)
}

// Asking says whether a reader has a right, as the API server has it: a verb on the
// objects of a kind, in a namespace or in all of them, or on one.
type Asking func(verb string, kind Kind, namespace, name string) bool

// MaySee says whether a reader may know of a controller: who may get the object that
// declares it, or list one of the kinds it handles. One of which no kinds are known has
// nothing to hide, unless it is declared.
func MaySee(c *Controller, may Asking) bool {
	if d := c.Declared; d != nil && may("get", d.Kind, d.Namespace, d.Name) {
		return true
	}
	return c.Declared == nil && len(c.Kinds) == 0 ||
		slices.ContainsFunc(c.Kinds, func(k Kind) bool { return may("list", k, "", "") })
}

// RedactController is a controller without what its reader may not read, which is said
// where it would be: what it fails with is for who may get the object that declares it,
// the status of which says that too, or else list all kinds that it handles and writes.
func RedactController(c Controller, may Asking) Controller {
	if mayHear(&c, may) {
		return c
	}
	if c.Last != nil {
		c.Last = &Failure{Message: unhearable, Time: c.Last.Time}
	}
	c.Conditions = slices.Clone(c.Conditions)
	for i := range c.Conditions {
		if c.Conditions[i].Message != "" {
			c.Conditions[i].Message = unhearable
		}
	}
	if len(c.Notes) > 0 {
		c.Notes = []string{unhearable}
	}
	return c
}

// unhearable is said in place of what a controller says of its objects.
const unhearable = "you may not read what it says"

func mayHear(c *Controller, may Asking) bool {
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
