package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// outputFlags are the flags of commands that print results.
type outputFlags struct {
	output outputFormat
	color  flags.Choice
	// noHeaders prints tables without headers.
	noHeaders bool
}

// newOutputFlags returns the flags of a command with these formats, the default first.
func newOutputFlags(formats ...string) outputFlags {
	return outputFlags{output: outputFormat{Value: formats[0], allowed: formats}, color: *flags.OneOf("auto", "always", "never")}
}

func (f *outputFlags) register(c *cobra.Command) {
	set := c.Flags()
	set.VarP(&f.output, "output", "o", "output format: one of these, or jsonpath=, jsonpath-file=, go-template=, go-template-file="+
		f.output.moreFormats()+" with a template for the JSON")
	_ = c.RegisterFlagCompletionFunc("output", f.output.complete) // It fails only for an undefined flag.
	if f.output.allows(asTable) {
		set.BoolVar(&f.noHeaders, "no-headers", false, "print tables without headers")
	}
	addChoice(c, &f.color, "color", "", "print colors: auto is on terminals without $NO_COLOR")
}

// structured reports whether the output is made of JSON, isTemplate whether by a template, and
// isTable whether it is a table.
func (f *outputFlags) structured() bool { return f.output.print != nil }
func (f *outputFlags) isTemplate() bool {
	return f.structured() && !f.output.allows(f.output.Value)
}
func (f *outputFlags) isTable() bool {
	return slices.Contains([]string{asTable, asWide, asCustomColumns}, f.output.Value)
}

// wantsColor reports whether to print colors to a stream.
func (f *outputFlags) wantsColor(out io.Writer) bool {
	return f.color.Value == "always" || f.color.Value == "auto" && wantsColor(out)
}

// table returns a table for a stream.
func (f *outputFlags) table(out io.Writer) *table {
	t := &table{color: f.wantsColor(out), noHeaders: f.noHeaders}
	if f.output.Value == asTable {
		t.width = terminalWidth(out)
	}
	return t
}

// Values of --output, and those that are followed by = and a template.
const (
	asTable = "table"
	asText  = "text"
	asWide  = "wide"
	asJSON  = "json"
	asYAML  = "yaml"
	asName  = "name"

	asCustomColumns = "custom-columns"
)

// printFunc prints a value.
type printFunc func(out io.Writer, value any) error

// outputFormat is the value of --output: one of the formats of a command, or the name of a
// template language with = and a template.
type outputFormat struct {
	// Value is the name of the format.
	Value   string
	allowed []string
	// print is set for formats made of JSON, columns for custom columns.
	print   printFunc
	columns []customColumn
}

// isPerObject reports whether each line is about one object, and hints have no place.
func (f *outputFormat) isPerObject() bool { return f.Value == asName || f.Value == asCustomColumns }

func (f *outputFormat) allows(name string) bool { return slices.Contains(f.allowed, name) }

// moreFormats returns the further formats of commands with rows.
func (f *outputFormat) moreFormats() string {
	if f.allows(asName) {
		return ", custom-columns=, custom-columns-file="
	}
	return ""
}

// String returns the value. String, Set and Type implement pflag.Value.
func (f *outputFormat) String() string { return f.Value }

// Type returns the value's name in help texts.
func (f *outputFormat) Type() string { return strings.Join(f.allowed, "|") + "|…" }

// Set parses the value, and the template in it.
func (f *outputFormat) Set(text string) error {
	name, template, given := strings.Cut(text, "=")
	f.Value, f.print, f.columns = name, nil, nil
	language, isTemplate := f.languages()[name]
	switch {
	case isTemplate && template == "":
		return fmt.Errorf("%s needs a template: %[1]s=%s", name, language.example)
	case isTemplate:
		return language.set(f, template)
	case given || !f.allows(name):
		return fmt.Errorf("must be one of %s", strings.Join(f.words(), ", "))
	case name == asJSON || name == asYAML:
		f.print = documents(name)
	}
	return nil
}

// documents prints JSON or YAML, with a line between documents of YAML.
func documents(format string) printFunc {
	printed := false
	return func(out io.Writer, value any) error {
		if format == asYAML && printed {
			if _, err := io.WriteString(out, "---\n"); err != nil {
				return err
			}
		}
		printed = true
		return encode(out, format, value)
	}
}

// words returns all values; those with a template end with =.
func (f *outputFormat) words() []string {
	words := slices.Clone(f.allowed)
	for _, name := range slices.Sorted(maps.Keys(f.languages())) {
		words = append(words, name+"=")
	}
	return words
}

// complete completes the value, and the file of a template.
func (f *outputFormat) complete(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, "-file=") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words := withPrefix(word, f.words())
	if slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(w, "=") }) {
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// printRows prints the rows that have changed as a table, or their names.
func (f *outputFlags) printRows(out io.Writer, t *table, rows []row) (err error) {
	switch f.output.Value {
	case asName:
		for _, each := range t.changed(rows) {
			if _, err := fmt.Fprintln(out, clean(each.name)); err != nil {
				return err
			}
		}
		return nil
	case asCustomColumns:
		for i := range rows {
			if rows[i], err = f.output.customRow(rows[i]); err != nil {
				return err
			}
		}
	}
	t.headers = rows[0].headers
	return t.write(out, rows)
}

// printValue prints a value in a format made of JSON.
func (f *outputFlags) printValue(out io.Writer, value any) error { return f.output.print(out, value) }

// columns returns the headers and cells for the output format.
func (f *outputFlags) columns(all ...column) (headers, cells []string) {
	for _, c := range all {
		if !c.wide || f.output.Value == asWide {
			headers, cells = append(headers, c.header), append(cells, c.cell)
		}
	}
	return headers, cells
}
