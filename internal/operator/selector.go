package operator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/served"
)

// Selector selects kinds by what discovery knows of them. All given fields must match.
type Selector struct {
	Group   *string `json:"group,omitempty"`
	Version string  `json:"version,omitempty"`
	// Name is the plural, the singular, the kind or a short name.
	Name      string `json:"name,omitempty"`
	Plural    string `json:"plural,omitempty"`
	Singular  string `json:"singular,omitempty"`
	Kind      string `json:"kind,omitempty"`
	ShortName string `json:"shortName,omitempty"`
	// Category and Any may select several kinds.
	Category string `json:"category,omitempty"`
	Any      bool   `json:"any,omitempty"`
}

func (s *Selector) check() error {
	switch {
	case s.Any && (s.names() || s.Category != ""):
		return errors.New("any excludes category and names")
	case !s.Any && !s.names() && s.Category == "":
		return errors.New("one of name, plural, singular, kind, shortName, category and any is required")
	}
	return nil
}

// names reports whether the selector names one kind.
func (s *Selector) names() bool {
	return s.Name != "" || s.Plural != "" || s.Singular != "" || s.Kind != "" || s.ShortName != ""
}

// String describes the selector in messages.
func (s *Selector) String() string {
	var words []string
	for _, each := range []struct{ field, text string }{
		{"", s.Name}, {"plural ", s.Plural}, {"singular ", s.Singular}, {"kind ", s.Kind}, {"short name ", s.ShortName},
		{"category ", s.Category},
	} {
		if each.text != "" {
			words = append(words, each.field+each.text)
		}
	}
	if s.Any {
		words = append(words, "any kind")
	}
	text, of := strings.Join(words, ", "), s.Version
	if s.Group != nil && *s.Group != "" {
		of = strings.TrimSuffix(*s.Group+"/"+s.Version, "/")
	}
	if of == "" {
		return text
	}
	return text + " of " + of
}

// exact returns the apiVersion and the plural if the selector has both. A name may be a plural.
func (s *Selector) exact() (apiVersion, plural string, is bool) {
	plural = cmp.Or(s.Plural, s.Name)
	if s.Group == nil || s.Version == "" || plural == "" || s.Singular != "" || s.Kind != "" || s.ShortName != "" || s.Category != "" {
		return "", "", false
	}
	return strings.TrimPrefix(*s.Group+"/"+s.Version, "/"), plural, true
}

// find returns the selected kinds that can be watched, each in one version. Without a version
// that is the one that the API server prefers. A name that several groups have is an error, but
// the core group has precedence over others, as in kubectl.
func (s *Selector) find(all []served.Kind) ([]served.Kind, error) {
	found := served.Preferred(all, s.matches)
	if !s.names() || len(found) < 2 {
		return found, nil
	}
	if i := slices.IndexFunc(found, func(k served.Kind) bool { return k.Group == "" }); i >= 0 {
		return found[i : i+1], nil
	}
	return nil, fmt.Errorf("%s is ambiguous: add the group of one of %s", s, strings.Join(served.FullNames(found), ", "))
}

func (s *Selector) matches(k *served.Kind) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return slices.Contains(k.Verbs, "list") && slices.Contains(k.Verbs, "watch") &&
		(s.Group == nil || *s.Group == k.Group) && is(s.Version, k.Version) &&
		is(s.Plural, k.Plural) && is(s.Singular, k.Singular) && is(s.Kind, k.Kind.Kind) &&
		(s.ShortName == "" || slices.Contains(k.ShortNames, s.ShortName)) &&
		(s.Category == "" || slices.Contains(k.Categories, s.Category)) &&
		(s.Name == "" || s.Name == k.Plural || s.Name == k.Singular || s.Name == k.Kind.Kind || slices.Contains(k.ShortNames, s.Name)) &&
		// To handle any kind does not include Events, because handlers send them.
		(!s.Any || k.Plural != "events" || k.Group != "" && k.Group != "events.k8s.io")
}
