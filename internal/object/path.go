package object

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParsePath parses a field path: names with dots between them, and names that contain dots in
// brackets and quotes, as in metadata.annotations["example.com/note"]. It has no list items.
func ParsePath(text string) ([]string, error) {
	var path []string
	for rest := text; rest != ""; {
		name, after, err := firstName(rest, len(path) == 0)
		if err != nil {
			return nil, fmt.Errorf(`%q is no field path: %w; separate names by dots, such as spec.currency, and quote names that contain dots, such as metadata.annotations["example.com/note"]`, text, err)
		}
		path, rest = append(path, name), after
	}
	switch {
	case len(path) == 0:
		return nil, errors.New("field path is empty; an example is spec.currency")
	case len(path) > 3 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations"):
		return nil, fmt.Errorf(`%q leads into a string; quote a name that contains dots: %s.%s["example.com/note"]`, text, path[0], path[1])
	}
	return path, nil
}

// JoinPath appends a member to a field path.
func JoinPath(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, "./[]"):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// firstName reads the first name of a path.
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
		name, rest, _ := strings.Cut(inner, quote)
		rest, closed := strings.CutPrefix(rest, "]")
		if !closed || name == "" {
			return "", "", errors.New("a bracket is not closed, or empty")
		}
		return name, rest, nil
	}
	return "", "", errors.New("list items cannot be selected")
}
