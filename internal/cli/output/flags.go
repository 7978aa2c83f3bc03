package output

import (
	"fmt"
	"io"

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
