package inspect

import (
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// The outcomes of reviews.
const (
	ReviewAllowed = "allowed"
	ReviewMutated = "mutated"
	ReviewDenied  = "denied"
	ReviewFailed  = "failed"
)

// ReviewOutcomes returns all outcomes of reviews, the most severe first.
func ReviewOutcomes() []string {
	return []string{ReviewDenied, ReviewFailed, ReviewMutated, ReviewAllowed}
}

// ReviewFilter selects reviews. The zero value selects all.
type ReviewFilter struct {
	// Outcomes, Operation, User, Kind, Namespace and ObjectName must be equal, if set.
	Outcomes              []string
	Operation, User       string
	Kind                  object.Kind
	Namespace, ObjectName string
	// Text is in the name, the namespace, the user or the message; lower case.
	Text string
}

// Match reports whether a review is selected.
func (f *ReviewFilter) Match(run *Run) bool {
	review, ref, kind := run.Review(), &run.Object, f.Kind
	sameKind := kind.Group == ref.Group && (kind.Kind == ref.Kind.Kind || kind.Plural != "" && kind.Plural == ref.Plural)
	switch {
	case review == nil,
		len(f.Outcomes) > 0 && !slices.Contains(f.Outcomes, run.Outcome),
		f.Operation != "" && f.Operation != review.Operation,
		f.User != "" && f.User != review.User,
		kind.Kind != "" && !sameKind,
		f.Namespace != "" && f.Namespace != ref.Namespace,
		f.ObjectName != "" && f.ObjectName != ref.Name:
		return false
	}
	return f.Text == "" || slices.ContainsFunc([]string{run.ReviewedName(), ref.Namespace, review.User, run.ReviewMessage()},
		func(text string) bool { return contains(text, f.Text) })
}

// VisibleReviews returns the reviews of objects that the reader may get, and whether there are
// others. Few readers need a check for each namespace.
func VisibleReviews(runs []Run, may func(kind object.Kind, namespace string) bool) (seen []Run, hidden bool) {
	known := map[Location]bool{}
	check := func(at Location) bool {
		allowed, is := known[at]
		if !is {
			allowed = may(at.Kind, at.Namespace)
			known[at] = allowed
		}
		return allowed
	}
	for i := range runs {
		ref := &runs[i].Object
		switch {
		case runs[i].Review() == nil:
		case check(Location{Kind: ref.Kind}) || ref.Namespace != "" && check(Location{Kind: ref.Kind, Namespace: ref.Namespace}):
			seen = append(seen, runs[i])
		default:
			hidden = true
		}
	}
	return seen, hidden
}

// LastDenial returns the latest review of a request to change the stored object, if its webhook
// denied it; nil otherwise. Others may have allowed the same request. The runs are newest first.
func LastDenial(runs []Run) *Run {
	allowed := map[string]bool{}
	for i := range runs {
		run, review := &runs[i], runs[i].Review()
		if review == nil || review.DryRun || review.Operation == "connect" || run.Outcome == ReviewFailed {
			continue
		}
		webhook := strings.Join([]string{run.Process, run.Controller, run.Steps[0].Call.Name}, "\t")
		switch {
		case !review.Denied:
			allowed[webhook] = true
		case allowed[webhook]:
			return nil
		default:
			return run
		}
	}
	return nil
}
