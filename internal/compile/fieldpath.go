package compile

import (
	"errors"
	"fmt"
	"strings"
)

// readFieldPath reads a path as users write it: names with dots between them,
// and names that have dots themselves as ["a.b/c"].
func readFieldPath(text string) ([]string, error) {
	var path []string
	for rest := text; rest != ""; {
		name, after, err := firstName(rest, len(path) == 0)
		if err != nil {
			return nil, fmt.Errorf(`%q is no path: %w; write names with dots between them, such as spec.currency, and one that has dots itself as metadata.annotations["example.com/note"]`, text, err)
		}
		path, rest = append(path, name), after
	}
	switch {
	case len(path) == 0:
		return nil, errors.New("is empty; name a field, such as spec.currency")
	case isBelowText(path):
		return nil, fmt.Errorf(`%q leads into a text; a name with dots is written as %s.%s["example.com/note"]`, text, path[0], path[1])
	case isIdentity(path):
		return nil, fmt.Errorf("%q does not change, or changes with every write; name fields of the spec, of the status, labels or annotations", text)
	}
	return path, nil
}

// firstName reads the name at the start of a path, or of what is left of one.
func firstName(text string, first bool) (name, rest string, err error) {
	if strings.HasPrefix(text, "[") {
		return quotedName(text)
	}
	if !first {
		var dotted bool
		if text, dotted = strings.CutPrefix(text, "."); !dotted {
			return "", "", fmt.Errorf("%q follows a bracket", text)
		}
	}
	end := strings.IndexAny(text, ".[]")
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return "", "", errors.New("a name is missing")
	}
	return text[:end], text[end:], nil
}

func quotedName(text string) (name, rest string, err error) {
	for _, quote := range []string{`"`, `'`} {
		inner, quoted := strings.CutPrefix(text, "["+quote)
		if !quoted {
			continue
		}
		name, rest, closed := strings.Cut(inner, quote+"]")
		if !closed || name == "" {
			return "", "", errors.New("a bracket is not closed, or empty")
		}
		return name, rest, nil
	}
	return "", "", errors.New("a list is watched as a whole")
}

// isBelowText says that a path goes on below a label or an annotation.
func isBelowText(path []string) bool {
	return len(path) > 3 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations")
}

// isIdentity says that a field is what the system keeps of an object.
func isIdentity(path []string) bool {
	switch path[0] {
	case "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) == 1 || path[1] != "labels" && path[1] != "annotations" && path[1] != "ownerReferences"
	}
	return false
}
