package form

import (
	"maps"
	"net/url"
	"strings"
)

// Add adds a row, named by Next of its list or map.
func Add(values url.Values, next string) {
	if steps, mark, err := split(next); err == nil && mark == "" && len(steps) > 0 && steps[len(steps)-1].isRow {
		values.Set(next+"~"+rowMark, "1")
	}
}

// Remove removes a row and its input.
func Remove(values url.Values, name string) {
	if name == "" {
		return
	}
	maps.DeleteFunc(values, func(each string, _ []string) bool {
		rest, is := strings.CutPrefix(each, name)
		return is && (rest == "" || strings.ContainsAny(rest[:1], ".[~"))
	})
}
