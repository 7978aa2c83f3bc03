package userclient

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/served"
)

// AmbiguousError means that several groups serve a resource name. Unlike kubectl, Setpoint does
// not choose one.
type AmbiguousError struct {
	// Word is the name, Candidates are the full names that it may mean.
	Word       string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q is ambiguous: use one of %s", e.Word, strings.Join(e.Candidates, ", "))
}

// matchKinds returns the kinds that a name may mean, in their preferred versions and in the
// order of the API server's groups. Full names match before short names, whole groups before
// prefixes, and readable kinds before others.
//
// Without a group, the core group wins, since it has no name to write.
func matchKinds(all []served.Kind, word string) []served.Kind {
	name, group, qualified := strings.Cut(word, ".")
	groups := []func(*served.Kind) bool{
		func(s *served.Kind) bool { return s.Group == "" },
		func(*served.Kind) bool { return true },
	}
	if qualified {
		groups = []func(*served.Kind) bool{
			func(s *served.Kind) bool { return s.Group != "" && s.Group == group || s.Version+"."+s.Group == group },
			func(s *served.Kind) bool { return group != "" && strings.HasPrefix(s.Group, group) },
		}
	}
	names := []func(*served.Kind) bool{
		func(s *served.Kind) bool {
			return strings.EqualFold(s.Plural, name) || strings.EqualFold(s.Singular, name) || strings.EqualFold(s.Kind.Kind, name)
		},
		func(s *served.Kind) bool { return slices.Contains(s.ShortNames, name) },
	}
	for _, in := range groups {
		for _, named := range names {
			if found := preferredKinds(all, func(s *served.Kind) bool { return in(s) && named(s) }); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// preferredKinds returns the matching kinds, one version each. Readable kinds win.
func preferredKinds(all []served.Kind, is func(*served.Kind) bool) []served.Kind {
	found := served.Preferred(all, is)
	if slices.ContainsFunc(found, func(k served.Kind) bool { return k.Readable() }) {
		found = slices.DeleteFunc(found, func(k served.Kind) bool { return !k.Readable() })
	}
	return found
}
