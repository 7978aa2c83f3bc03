package userclient

import (
	"fmt"
	"slices"
	"strings"
)

// AmbiguousError says that several groups serve a word. kubectl takes the group that the
// API server prefers; we do not guess.
type AmbiguousError struct {
	// Word is what was written, Names are the full names of what it may mean.
	Word       string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q may be several kinds: write one of %s", e.Word, strings.Join(e.Candidates, ", "))
}

// matchKinds are the kinds that a word may mean, one version of each, those first whose group the
// API server prefers. A plural, singular or kind counts before what is short for others, a
// whole group before the beginning of one, and a kind whose objects can be read before one
// of which none are stored.
//
// Without a group, the core group counts before all others: it has no name that could be
// written, so that "pods" is the full name of its pods.
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

// preferredKinds are the kinds of which something is true, one version of each. Those that are
// not stored are left out if others are.
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

// fullNames are the names that mean one kind alone.
func fullNames(all []servedKind) []string {
	var names []string
	for i := range all {
		names = append(names, all[i].Resource())
	}
	return names
}
