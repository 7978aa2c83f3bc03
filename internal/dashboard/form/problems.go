package form

import (
	"slices"
	"strconv"
	"strings"
)

// AddProblems adds problems to their fields or the nearest part, and returns the rest.
func (f *Field) AddProblems(problems []Problem) (rest []Problem) {
	for _, p := range problems {
		at, behind := p.at, ""
		if at == nil {
			at, behind = f.find(strings.TrimPrefix(p.Field, "."))
		}
		if at == nil || at == f {
			rest = append(rest, p)
			continue
		}
		message := p.Message
		if behind != "" && at.HasParts() {
			message = strings.TrimPrefix(behind, ".") + ": " + message
		}
		if !slices.Contains(at.Problems, message) {
			at.Problems = append(at.Problems, message)
		}
	}
	return rest
}

// find follows a path as far as it leads, and returns the rest of the path.
func (f *Field) find(path string) (found *Field, rest string) {
	if path == "" {
		return f, ""
	}
	below, rest := f.next(path)
	if below == nil {
		return f, path
	}
	return below.find(strings.TrimPrefix(rest, "."))
}

// next returns the part at the start of a path. Names may contain dots, so the longest match
// wins.
func (f *Field) next(path string) (found *Field, rest string) {
	longest := -1
	try := func(part *Field, text string) {
		after, fits := strings.CutPrefix(path, text)
		if fits && text != "" && len(text) > longest && (after == "" || after[0] == '.' || after[0] == '[' || text[0] == '[') {
			found, rest, longest = part, after, len(text)
		}
	}
	for _, part := range slices.Concat(f.Fields, f.More) {
		try(part, part.Label)
		try(part, "["+part.Label+"]")
	}
	for _, part := range f.Rows {
		switch {
		case part.Key != nil && part.Key.Text != "":
			try(part, part.Key.Text)
			try(part, "["+part.Key.Text+"]")
		case part.Key == nil && part.at >= 0:
			try(part, "["+strconv.Itoa(part.at)+"]")
		}
	}
	return found, rest
}
