package userclient

import (
	"fmt"
	"slices"
	"strings"
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
func matchKinds(all []servedKind, word string) []servedKind {
	name, group, qualified := strings.Cut(word, ".")
	groups := []func(*servedKind) bool{
		func(s *servedKind) bool { return s.Group == "" },
		func(*servedKind) bool { return true },
	}
	if qualified {
		groups = []func(*servedKind) bool{
			func(s *servedKind) bool { return s.Group != "" && s.Group == group || s.Version+"."+s.Group == group },
			func(s *servedKind) bool { return group != "" && strings.HasPrefix(s.Group, group) },
		}
	}
	names := []func(*servedKind) bool{
		func(s *servedKind) bool {
			return strings.EqualFold(s.Plural, name) || strings.EqualFold(s.singular, name) || strings.EqualFold(s.Kind.Kind, name)
		},
		func(s *servedKind) bool { return slices.Contains(s.shortNames, name) },
	}
	for _, in := range groups {
		for _, named := range names {
			if found := preferredKinds(all, func(s *servedKind) bool { return in(s) && named(s) }); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// preferredKinds returns the matching kinds, one version each. Readable kinds win.
func preferredKinds(all []servedKind, is func(*servedKind) bool) []servedKind {
	var found []servedKind
	for i := range all {
		same := func(s servedKind) bool { return s.Group == all[i].Group && s.Plural == all[i].Plural }
		if is(&all[i]) && !slices.ContainsFunc(found, same) {
			found = append(found, all[i])
		}
	}
	if slices.ContainsFunc(found, func(s servedKind) bool { return s.readable() }) {
		found = slices.DeleteFunc(found, func(s servedKind) bool { return !s.readable() })
	}
	return found
}

// fullNames returns the unambiguous names of kinds.
func fullNames(all []servedKind) []string {
	var names []string
	for i := range all {
		names = append(names, all[i].Resource())
	}
	return names
}
