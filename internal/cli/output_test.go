package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A patch that is nested thousands of levels deep is not indented.
func TestEncodeDeepValues(t *testing.T) {
	deep := func(levels int) any {
		return map[string]any{"patch": json.RawMessage(strings.Repeat(`{"a\"[{":[`, levels) + strings.Repeat("]}", levels))}
	}
	for levels, lines := range map[int]int{1: 5, 49: 197, 4000: 1} {
		for _, format := range []string{asJSON, asYAML} {
			var out bytes.Buffer
			if err := encode(&out, format, deep(levels)); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out.String(), "\n"); format == asJSON && got != lines || out.Len() > 100_000 {
				t.Errorf("%d levels: %d lines, %d bytes of %s", levels, got, out.Len(), format)
			}
			var back map[string]any
			if err := yaml.Unmarshal(out.Bytes(), &back); err != nil {
				t.Errorf("%d levels of %s: %v", levels, format, err)
			}
		}
	}
}

// YAML has a line between documents, and none before the first.
func TestDocuments(t *testing.T) {
	for format, want := range map[string]string{asYAML: "a: 1\n---\nb: 2\n", asJSON: "{\n  \"a\": 1\n}\n{\n  \"b\": 2\n}\n"} {
		var out bytes.Buffer
		write := documents(format)
		for _, value := range []map[string]int{{"a": 1}, {"b": 2}} {
			if err := write(&out, value); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", format, &out, want)
		}
	}
}
