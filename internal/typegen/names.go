package typegen

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// reserved are names that a language or its generated code uses itself.
var reserved = []string{
	"Any", "Dict", "List", "Literal", "None", "NotRequired", "True", "False", "TypedDict", "TYPE_CHECKING", "Union",
}

// namer has the names that are taken, so that each type gets one of its own.
type namer map[string]bool

// pick takes the first free name, or the last one with a number.
func (n namer) pick(names ...string) string {
	last := names[len(names)-1]
	for i := 2; ; i++ {
		if at := slices.IndexFunc(names, func(name string) bool { return !n[name] && !slices.Contains(reserved, name) }); at >= 0 {
			n[names[at]] = true
			return names[at]
		}
		names = []string{last + strconv.Itoa(i)}
	}
}

// camel makes a name of what may have any characters.
func camel(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	text := strings.Join(words, "")
	if text != "" && unicode.IsDigit(rune(text[0])) {
		return "X" + text
	}
	return text
}

// definitionNames returns names for a definition such as io.k8s.api.core.v1.PodSpec: PodSpec,
// then CoreV1PodSpec.
func definitionNames(full string) []string {
	parts := strings.Split(full, ".")
	last := camel(parts[len(parts)-1])
	if len(parts) < 3 {
		return []string{last}
	}
	return []string{last, camel(parts[len(parts)-3]) + camel(parts[len(parts)-2]) + last}
}
