package form_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
)

// TestInputIsBounded rejects texts within the byte limit that would need a gigabyte of memory. Fault S3.
func TestInputIsBounded(t *testing.T) {
	const bytes = form.MaxBytes - 100
	const most = 200 << 20
	spread := "a: &a [" + strings.Repeat("x, ", 9) + "x]\n"
	for last := 'a'; last < 'g'; last++ {
		next := string(last + 1)
		spread += next + ": &" + next + " [" + strings.Repeat("*"+string(last)+", ", 9) + "x]\n"
	}
	for name, text := range map[string]string{
		"empty objects":         "a: [" + strings.Repeat("{},", bytes/3) + "{}]",
		"a list of dashes":      strings.Repeat("-\n", bytes/2),
		"lists of lists":        strings.Repeat("- ", bytes/2),
		"within the text limit": "a: [" + strings.Repeat("[],", 140_000) + "]",
		"aliases of aliases":    spread,
		"keys of one letter":    strings.Repeat("? a\n", bytes/4),
		"aliases":               "a: &a {b: c}\nd: [" + strings.Repeat("*a,", bytes/3-10) + "*a]\n",
	} {
		t.Run(name, func(t *testing.T) {
			took := heaptest.Allocated(func() {
				if _, err := form.ParseYAML(text); err == nil {
					t.Errorf("got %v", err)
				}
			})
			if took > most {
				t.Errorf("it took %d bytes to refuse", took)
			}
		})
	}
	data := []byte(`{"a":[` + strings.Repeat("{},", bytes/3) + "{}]}")
	took := heaptest.Allocated(func() {
		_, err := form.DecodeJSON(data)
		if !errors.Is(err, form.ErrInputTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	if took > most {
		t.Errorf("JSON: it took %d bytes to refuse", took)
	}
}

// All YAML fields share one limit.
func TestYAMLFieldsShareOneBound(t *testing.T) {
	f := form.New(schemaOf(t, `{type: object, properties: {spec: {type: object, additionalProperties: {x-kubernetes-preserve-unknown-fields: true}}}}`), nil, form.Options{})
	values := url.Values{}
	for row := range strings.SplitSeq("0 1 2 3 4 5 6 7 8 9", " ") {
		values.Set(".spec["+row+"]", "["+strings.Repeat("[],", form.MaxValues/9)+"]")
	}
	if _, err := f.Read(values); !errors.Is(err, form.ErrInputTooLarge) {
		t.Errorf("got %v", err)
	}
}

// Real objects are far from the limits, also with a text of a megabyte.
func TestLargeObjects(t *testing.T) {
	for name, text := range map[string]string{
		"a table":      "apiVersion: v1\ndata:\n  table.csv: |\n    a,b,c\n" + strings.Repeat("    1,2,3\n", 100_000) + "kind: ConfigMap\nmetadata: {name: x}\n",
		"a script":     "data:\n  run: |-\n" + strings.Repeat("    rm -f *.tmp # [a, b]: {c}\n", 30_000),
		"many members": "data: {a: 1, b: 2}\nlist:\n" + strings.Repeat("- name: x\n  value: y\n", 8_000),
		"quoted":       "data:\n  a: '" + strings.Repeat("{''a'': 1},", 90_000) + "'\n",
		"an alias":     "a: &x {b: 1}\nc: *x\nd: *x\n",
	} {
		if _, err := form.ParseYAML(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
