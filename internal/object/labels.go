package object

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Labels are key-value pairs: a view of the object's JSON, which is read anew
// each time. An object has a handful of them, and there may be a hundred thousand
// objects. It is what a labels.Selector of apimachinery matches against.
type Labels struct {
	// text is a JSON object of strings without escapes, so that quotes alone
	// tell where one begins and ends.
	text string
}

// Label is one pair.
type Label struct{ Key, Value string }

// All iterates over the pairs. Whoever keeps one keeps the whole object.
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

// nextText returns the next string and what follows it, which at the end is
// nothing.
func nextText(text string) (string, string) {
	_, text, _ = strings.Cut(text, `"`)
	value, rest, _ := strings.Cut(text, `"`)
	return value, rest
}

// Lookup returns the value of a key and whether it is there.
func (l Labels) Lookup(key string) (string, bool) {
	for label := range l.All() {
		if label.Key == key {
			return label.Value, true
		}
	}
	return "", false
}

// Has says whether the key is there.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of a key, or "".
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// plainLabels writes labels so that they can be looked up: without escapes, and
// without those that need them, which no selector can ask for.
func plainLabels(data []byte) []byte {
	var pairs map[string]string
	_ = json.Unmarshal(data, &pairs) // the parser has read it
	plain := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if pair := key + pairs[key]; !strings.ContainsAny(pair, `"\`) {
			plain = append(append(plain, `"`+key+`":"`+pairs[key]+`"`...), ',')
		}
	}
	return append(bytes.TrimSuffix(plain, []byte(",")), '}')
}
