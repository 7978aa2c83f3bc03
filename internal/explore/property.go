package explore

import (
	"slices"
	"strings"
)

// Property is a property that every exploration checks, or an invariant of an author.
type Property string

// The properties.
const (
	Deterministic Property = "Deterministic" // the same request gets the same response
	Settles       Property = "Settles"       // without further edits and faults, everything comes to rest
	Reconciled    Property = "Reconciled"    // at rest, no reconcile fails
	SameEnd       Property = "SameEnd"       // where it rests depends on the final specs alone
	Desired       Property = "Desired"       // at rest, one more reconcile writes nothing
	NoRecreate    Property = "NoRecreate"    // without an edit nothing is created, deleted and created again
	Owned         Property = "Owned"         // at rest, no child lacks its owner
	Finalized     Property = "Finalized"     // at rest, no object is being deleted
	Valid         Property = "Valid"         // no panic, no write that the API server rejects as invalid
	Quiet         Property = "Quiet"         // without an edit, one object is not written again and again
)

// Properties are all properties, in the order of reports.
var Properties = []Property{Deterministic, Valid, Settles, Reconciled, Desired, SameEnd, NoRecreate, Owned, Finalized, Quiet}

func join(properties []Property) string {
	names := make([]string, len(properties))
	for i, p := range properties {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// finding is something that does not hold.
type finding struct {
	property Property
	text     string
}

// isAboutRest reports whether a property says something about states of rest alone.
func isAboutRest(p Property, invariants []Invariant) bool {
	return slices.Contains([]Property{Reconciled, Desired, SameEnd, Owned, Finalized}, p) ||
		slices.ContainsFunc(invariants, func(i Invariant) bool { return Property(i.Name) == p && i.Eventually != "" })
}
