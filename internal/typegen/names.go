package typegen

import (
	"strconv"
	"strings"
	"unicode"
)

// reserved are names that a language or its generated code uses itself.
var reserved = []string{
	"Any", "Dict", "List", "Literal", "None", "NotRequired", "True", "False", "TypedDict", "TYPE_CHECKING", "Union",
}

// namer gives each type a name of its own.
type namer map[string]bool

func newNamer() namer {
	n := namer{}
	for _, word := range reserved {
		n[word] = true
	}
	return n
}

// pick takes the first free name, or the last one with a number.
func (n namer) pick(names ...string) string {
	for _, name := range names {
		if !n[name] {
			n[name] = true
			return name
		}
	}
	last := names[len(names)-1]
	for i := 2; ; i++ {
		if name := last + strconv.Itoa(i); !n[name] {
			n[name] = true
			return name
		}
	}
}

// camel returns a name in CamelCase: rolling-set is RollingSet, apps/v1 AppsV1.
func camel(name string) string {
	var b strings.Builder
	upper := true
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			upper = true
			continue
		}
		if upper {
			r = unicode.ToUpper(r)
		}
		upper = false
		b.WriteRune(r)
	}
	text := b.String()
	if text != "" && unicode.IsDigit(rune(text[0])) {
		return "X" + text
	}
	return text
}

// definitionNames returns names for a definition such as io.k8s.api.core.v1.PodSpec: PodSpec,
// then CoreV1PodSpec.
func definitionNames(definition string) []string {
	parts := strings.Split(definition, ".")
	last := camel(parts[len(parts)-1])
	if len(parts) < 3 {
		return []string{last}
	}
	return []string{last, camel(parts[len(parts)-3]) + camel(parts[len(parts)-2]) + last}
}
