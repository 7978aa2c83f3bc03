package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Values of --output, and the one that is followed by = and a template.
const (
	AsTable = "table"
	AsText  = "text"
	AsWide  = "wide"
	AsJSON  = "json"
	AsYAML  = "yaml"
	AsName  = "name"

	asJSONPath = "jsonpath"
)

// printFunc prints a value.
type printFunc func(out io.Writer, value any) error

// Format is the value of --output: one of the formats of a command, or jsonpath= and a template.
type Format struct {
	// Value is the name of the format.
	Value   string
	allowed []string
	// print is set for formats made of JSON.
	print printFunc
}

func (f *Format) allows(name string) bool { return slices.Contains(f.allowed, name) }

// String returns the value. String, Set and Type implement pflag.Value.
func (f *Format) String() string { return f.Value }

// Type returns the value's name in help texts.
func (f *Format) Type() string { return strings.Join(f.allowed, "|") + "|…" }

// Set parses the value, and the template in it.
func (f *Format) Set(text string) (err error) {
	name, template, given := strings.Cut(text, "=")
	f.Value, f.print = name, nil
	switch {
	case name == asJSONPath && template == "":
		return errors.New("jsonpath needs a template: jsonpath='{.items[*].name}'")
	case name == asJSONPath:
		f.print, err = parseJSONPath(template)
		return err
	case given || !f.allows(name):
		return fmt.Errorf("must be one of %s", strings.Join(f.words(), ", "))
	case name == AsJSON || name == AsYAML:
		f.print = documents(name)
	}
	return nil
}

// documents prints JSON or YAML, with a line between documents of YAML.
func documents(format string) printFunc {
	printed := false
	return func(out io.Writer, value any) error {
		if format == AsYAML && printed {
			if _, err := io.WriteString(out, "---\n"); err != nil {
				return err
			}
		}
		printed = true
		return Encode(out, format, value)
	}
}

// words returns all values; the one with a template ends with =.
func (f *Format) words() []string { return append(slices.Clone(f.allowed), asJSONPath+"=") }

// complete completes the value.
func (f *Format) complete(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	words := command.WithPrefix(word, f.words())
	if slices.Contains(words, asJSONPath+"=") {
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// parseJSONPath returns a function that prints the JSON of a value by a JSONPath template. Missing fields are empty.
func parseJSONPath(text string) (printFunc, error) {
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, err
	}
	return func(out io.Writer, value any) error {
		encoded, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var decoded any
		if err := utiljson.Unmarshal(encoded, &decoded); err != nil {
			return err
		}
		var text bytes.Buffer
		if err := path.Execute(&text, decoded); err != nil {
			return fmt.Errorf("execute the template of --output: %w", err)
		}
		_, err = io.WriteString(out, diff.EscapeInvisible(text.String()))
		return err
	}, nil
}

// Encode prints a value as JSON or YAML, with invisible characters escaped. One that is nested too
// deep for indentation is JSON on one line, which is YAML too.
func Encode(out io.Writer, as string, value any) error {
	var compact bytes.Buffer
	encoder := json.NewEncoder(&compact)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	text, indented := object.Indent(compact.Bytes())
	// Characters beyond ASCII occur in strings only.
	plain := []byte(escapeHidden(string(text)))
	if as == AsYAML && indented {
		var err error
		if plain, err = yaml.JSONToYAML(plain); err != nil {
			return err
		}
		// The YAML encoder considers some invisible characters printable.
		plain = []byte(escapeHidden(string(plain)))
	}
	_, err := out.Write(plain)
	return err
}

func escapeHidden(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r > unicode.MaxASCII && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) && r <= 0xffff || r == 0x7f {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
