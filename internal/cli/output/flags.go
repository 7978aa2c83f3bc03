package output

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/flags"
)

// PrintFlags are the flags of commands that print results.
type PrintFlags struct {
	Output Format
	color  flags.Choice
	// noHeaders prints tables without headers.
	noHeaders bool
}

// NewPrintFlags returns the flags of a command with these formats, the default first.
func NewPrintFlags(formats ...string) PrintFlags {
	return PrintFlags{Output: Format{Value: formats[0], allowed: formats}, color: *flags.OneOf("auto", "always", "never")}
}

// NewRowFlags returns the flags of a command that prints objects as rows of a table.
func NewRowFlags() PrintFlags { return NewPrintFlags(AsTable, AsWide, AsName, AsJSON, AsYAML) }

// NewTextFlags returns the flags of a command that prints text.
func NewTextFlags() PrintFlags { return NewPrintFlags(AsText, AsJSON, AsYAML) }

// Register adds the flags.
func (f *PrintFlags) Register(c *cobra.Command) {
	set := c.Flags()
	set.VarP(&f.Output, "output", "o", "output format: one of these, or jsonpath= with a template for the JSON")
	_ = c.RegisterFlagCompletionFunc("output", f.Output.complete) // It fails only for an undefined flag.
	if f.Output.allows(AsTable) {
		set.BoolVar(&f.noHeaders, "no-headers", false, "print tables without headers")
	}
	command.AddChoice(c, &f.color, "color", "", "print colors: auto is on terminals without $NO_COLOR")
}

// Structured reports whether the output is made of JSON.
func (f *PrintFlags) Structured() bool { return f.Output.print != nil }

// IsTable reports whether the output is a table.
func (f *PrintFlags) IsTable() bool { return f.Output.Value == AsTable || f.Output.Value == AsWide }

// WantsColor reports whether to print colors to a stream.
func (f *PrintFlags) WantsColor(out io.Writer) bool {
	return f.color.Value == "always" || f.color.Value == "auto" && WantsColor(out)
}

// Table returns a table for a stream.
func (f *PrintFlags) Table(out io.Writer) *Table {
	t := &Table{Color: f.WantsColor(out), noHeaders: f.noHeaders}
	if f.Output.Value == AsTable {
		t.width = TerminalWidth(out)
	}
	return t
}

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

// PrintRows prints the rows that have changed as a table, or their names.
func (f *PrintFlags) PrintRows(out io.Writer, t *Table, rows []Row) error {
	if f.Output.Value != AsName {
		t.Headers = rows[0].Headers
		return t.Write(out, rows)
	}
	for _, each := range t.Changed(rows) {
		if _, err := fmt.Fprintln(out, Clean(each.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Show prints all rows, of which tables have at least one, the first time, then those that have changed.
func (f *PrintFlags) Show(out io.Writer, t *Table, rows []Row, all any, watch bool) error {
	if !f.Structured() {
		return f.PrintRows(out, t, rows)
	}
	first := !t.Started
	t.Started = true
	changed := t.Changed(rows)
	if first && (!watch || f.Output.Value != asJSONPath) {
		return f.PrintValue(out, map[string]any{"items": all})
	}
	// As with kubectl, a template for a watch is one for each item.
	for _, each := range changed {
		if err := f.PrintValue(out, each.Value); err != nil {
			return err
		}
	}
	return nil
}

// PrintValue prints a value in a format made of JSON.
func (f *PrintFlags) PrintValue(out io.Writer, value any) error { return f.Output.print(out, value) }

// Columns returns the headers and cells for the output format.
func (f *PrintFlags) Columns(all ...Column) (headers, cells []string) {
	for _, c := range all {
		if !c.Wide || f.Output.Value == AsWide {
			headers, cells = append(headers, c.Header), append(cells, c.Cell)
		}
	}
	return headers, cells
}
