package setpoint

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// ReviewOption says more about a function that is asked before objects are stored.
type ReviewOption interface{ applyToReview(*reviewSettings) }

type reviewOption func(*reviewSettings)

func (o reviewOption) applyToReview(s *reviewSettings) { o(s) }

// On sets the operations to review. The default is OperationCreate for Mutate, and
// OperationCreate and OperationUpdate for Validate.
func On(operations ...Operation) ReviewOption {
	return reviewOption(func(s *reviewSettings) {
		for _, one := range operations {
			if !slices.Contains(s.operations, one) {
				s.operations = append(s.operations, one)
			}
		}
	})
}

// Subresources has a review asked about these, such as "status" and "scale", in
// place of the object itself, which "" stands for. Some are of another kind than the
// object: T is the type of what is to be read then, and Kind says whose subresource
// it is.
func Subresources(names ...string) ReviewOption {
	return reviewOption(func(s *reviewSettings) { s.subresources = append(s.subresources, names...) })
}

// NamespaceLabels limits a review to objects in namespaces that a label selector
// selects, such as "team=web". It has no bearing on objects that live in none.
func NamespaceLabels(selector string) ReviewOption {
	return reviewOption(func(s *reviewSettings) { s.namespaceLabels = append(s.namespaceLabels, selector) })
}

// Match has a review asked only if a CEL expression is true, such as
// "!has(object.metadata.deletionTimestamp)": the API server decides, and asks less.
// The name is for its messages. With several, all must be true.
func Match(name, cel string) ReviewOption {
	return reviewOption(func(s *reviewSettings) {
		s.hook.Conditions = append(s.hook.Conditions, admission.Condition{Name: name, Expression: cel})
	})
}

// FailurePolicyType is what is done with a change of which there is no verdict.
type FailurePolicyType string

// The failure policies.
const (
	// Ignore lets the change pass.
	Ignore FailurePolicyType = "Ignore"
	// Fail refuses it.
	Fail FailurePolicyType = "Fail"
)

// FailurePolicy says what is done with a change of which there is no verdict: the
// program does not answer, is too late, returns an error that is no denial, or
// panics. Without, Mutate has Ignore, so that the cluster goes on, and Validate Fail,
// so that no rule can be got round.
func FailurePolicy(f FailurePolicyType) ReviewOption {
	return reviewOption(func(s *reviewSettings) {
		if f != Ignore && f != Fail {
			s.addProblem("FailurePolicy: is %q; it may be %s or %s", f, Ignore, Fail)
		}
		s.hook.Ignore = f == Ignore
	})
}

// Reinvoke has Mutate asked once more where others after it have changed the object.
func Reinvoke() ReviewOption {
	return reviewOption(func(s *reviewSettings) {
		s.hook.Reinvoke = true
		if !s.hook.Mutates {
			s.addProblem("Reinvoke: is for Mutate; what validates is asked when nothing changes any more")
		}
	})
}

// IncludeSystemNamespaces has a review asked also about kube-system, kube-node-lease and, in a
// cluster, the namespace that the program runs in. Without, these are left alone, so
// that the cluster and the program can be mended while the program is down.
func IncludeSystemNamespaces() ReviewOption {
	return reviewOption(func(s *reviewSettings) { s.systemNamespaces = true })
}

// setTimeout takes what the API server takes.
func (s *reviewSettings) setTimeout(d time.Duration) {
	if d < time.Second || d > 30*time.Second || d%time.Second != 0 {
		s.addProblem("Timeout(%s): must be whole seconds, 1s to 30s", d)
	}
	s.hook.Timeout = d
}
