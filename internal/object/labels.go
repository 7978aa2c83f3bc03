package object

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Labels are key-value pairs: a view of the object's JSON that is read on each use, since there
// may be a hundred thousand objects with few labels each. It implements labels.Labels.
type Labels struct {
	// text is a JSON object of strings without escapes, so that quotes delimit them.
	text string
}

// Label is a key-value pair.
type Label struct{ Key, Value string }

// All iterates over the pairs. Their strings keep the whole object in memory.
func (l Labels) All() iter.Seq[Label] {
	return func(yield func(Label) bool) {
		for rest := l.text; ; {
			var label Label
			label.Key, rest = nextText(rest)
			label.Value, rest = nextText(rest)
			if rest == "" || !yield(label) {
				return
			}
		}
	}
}

// nextText returns the next string and the rest, which is empty at the end.
func nextText(text string) (string, string) {
	_, text, _ = strings.Cut(text, `"`)
	value, rest, _ := strings.Cut(text, `"`)
	return value, rest
}

// Lookup returns the value of a key and whether it exists.
func (l Labels) Lookup(key string) (string, bool) {
	for label := range l.All() {
		if label.Key == key {
			return label.Value, true
		}
	}
	return "", false
}

// Has reports whether the key exists.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of a key, or "".
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// plainLabels returns labels without escapes. It omits those that need them, which no selector
// can match.
func plainLabels(data []byte) []byte {
	var pairs map[string]string
	_ = json.Unmarshal(data, &pairs) // The parser has checked it.
	plain := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if pair := key + pairs[key]; !strings.ContainsAny(pair, `"\`) {
			plain = append(append(plain, `"`+key+`":"`+pairs[key]+`"`...), ',')
		}
	}
	return append(bytes.TrimSuffix(plain, []byte(",")), '}')
}
