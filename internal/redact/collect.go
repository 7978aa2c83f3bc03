package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

func decode(text json.RawMessage) (value any, err error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	err = reader.Decode(&value)
	return value, err
}

func (v *Values) collect(value any, secret bool) {
	switch inner := value.(type) {
	case map[string]any:
		if object.IsSecret(inner) {
			v.addSecret(inner)
		}
		if secret {
			v.addParts(inner)
		}
		for _, each := range inner {
			v.collect(each, secret)
		}
	case []any:
		for _, each := range inner {
			v.collect(each, secret)
		}
	}
}

// addSecret adds the values of a Secret, or of a patch of one.
func (v *Values) addSecret(secret map[string]any) {
	v.found = true
	eachText(secret["data"], func(text string) { v.add(text, true) })
	eachText(secret["stringData"], func(text string) { v.add(text, false) })
}

// addParts adds the values of parts of a Secret: of its patches, and of fields with their path.
func (v *Values) addParts(part map[string]any) {
	if patch, is := part["patch"].(map[string]any); is {
		v.addSecret(patch)
	}
	for _, name := range changedSides(part) {
		eachText(part[name], func(text string) { v.add(text, isData(part["path"])) })
	}
}

// changedSides returns which members of a change of a Secret, or of an operation of a JSON patch, have values of it.
func changedSides(change map[string]any) []string {
	path, is := change["path"].(string)
	path = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."), "~1", "/")
	if !is || !object.IsSecretField(path) {
		return nil
	}
	return []string{"value", "from", "to"}
}

// isData reports whether a path is that of encoded values.
func isData(path any) bool {
	text, _ := path.(string)
	return strings.HasPrefix(strings.TrimPrefix(text, "/"), "data")
}

// eachText calls a function with all texts and numbers in a value.
func eachText(value any, visit func(string)) {
	switch inner := value.(type) {
	case string:
		visit(inner)
	case json.Number:
		visit(inner.String()) // It is invalid in a Secret, but it may be the value elsewhere.
	case map[string]any:
		for _, each := range inner {
			eachText(each, visit)
		}
	case []any:
		for _, each := range inner {
			eachText(each, visit)
		}
	}
}

// add adds a value as it is stored.
func (v *Values) add(stored string, encoded bool) {
	used := stored
	if decoded, err := base64.StdEncoding.DecodeString(stored); encoded && err == nil {
		used = string(decoded)
	}
	if v.known[used] {
		return
	}
	if v.known == nil {
		v.known = map[string]bool{}
	}
	v.known[used] = true
	trimmed := trim(used)
	if v.isPublic(trimmed) {
		return
	}
	plain, inData := v.replacementOf(used) // Of forms of one length, the first counts.
	for _, whole := range slices.Compact([]string{used, trimmed}) {
		v.index.add(whole, base64.StdEncoding.EncodeToString, inData, false)
		v.index.add(whole, encodedTwice, plain, false)
	}
	for _, form := range append(formsOf(trimmed), asIs) {
		v.index.add(trimmed, form, plain, len(trimmed) < minPart) // A short value counts where it stands alone.
	}
	for _, part := range partsOf(used) {
		if len(part) >= minPart && !v.isPublic(part) {
			plain, _ := v.replacementOf(part)
			v.index.add(part, asIs, plain, false)
		}
	}
}

// trim removes what users of a value remove: white space around it, and the first line of PEM, which says what follows.
func trim(value string) string {
	value = strings.TrimSpace(value)
	if first, rest, more := strings.Cut(value, "\n"); more && strings.HasPrefix(first, pemLine) {
		return rest
	}
	return value
}

const pemLine = "-----"

// minPart is the length from which a part of a value is looked for, and a value within words.
const minPart = 8

// partsOf returns what may be quoted of a longer value: its lines, what they assign, and the texts of JSON.
func partsOf(value string) (parts []string) {
	if json.Valid([]byte(value)) {
		if inner, err := decode(json.RawMessage(value)); err == nil {
			eachText(inner, func(text string) { parts = append(parts, text) })
		}
	}
	parts = append(parts, strings.Join(strings.Fields(trim(value)), " ")) // As errors quote several lines.
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, pemLine) {
			parts = append(parts, line)
		}
		for _, separator := range [...]string{"=", ": "} {
			if _, assigned, is := strings.Cut(line, separator); is {
				parts = append(parts, strings.Trim(assigned, `"' `))
			}
		}
	}
	return parts
}
