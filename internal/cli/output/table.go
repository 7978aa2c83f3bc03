// Package output prints the results of commands: tables, JSON, YAML and templates, in colours on a terminal. Text of others
// is escaped.
package output

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Clean makes untrusted text safe to print: it escapes control and invisible characters.
func Clean(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(diff.EscapeInvisible(strings.ToValidUTF8(text, "�")))
}

// Column is a cell with the header of its column; wide columns are for -o wide.
type Column struct {
	Header, Cell string
	Wide         bool
}

// Row is one row of a table.
type Row struct {
	Headers, Cells []string
	// Version changes if the row does, ignoring ages and other relative times.
	Version string
	// Key identifies the object of the row, Value is the object.
	Key   string
	Value any
	// Name is printed by -o name.
	Name string
}

// Table prints rows under headers, skipping rows that have not changed.
type Table struct {
	Headers []string
	written map[string]string
	Started bool
	// Color enables styles, noHeaders omits the headers.
	Color, noHeaders bool
	// width is the width of the terminal, to which the last column is cut; 0 is unlimited.
	width int
}

// minLastColumn is the minimum width of the last column.
const minLastColumn = 20

// fit cuts the last column to the remaining width of the terminal.
func (t *Table) fit(lines [][]string) {
	if t.width == 0 || len(t.Headers) == 0 {
		return
	}
	last := len(t.Headers) - 1
	left := t.width
	for column := range last {
		widest := 0
		for _, line := range lines {
			widest = max(widest, utf8.RuneCountInString(line[column]))
		}
		left -= widest + ColumnGap
	}
	left = max(left, minLastColumn)
	for _, line := range lines {
		if utf8.RuneCountInString(line[last]) > left {
			line[last] = diff.Shorten(line[last], left-1)
		}
	}
}

// ColumnGap is the number of spaces between columns.
const ColumnGap = 3

// Write prints the rows that have changed.
func (t *Table) Write(out io.Writer, rows []Row) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, ColumnGap, ' ', 0)
	var all [][]string
	headed := !t.Started && !t.noHeaders
	if headed {
		all = append(all, slices.Clone(t.Headers))
	}
	t.Started = true
	for _, r := range t.Changed(rows) {
		line := make([]string, len(r.Cells))
		for i, cell := range r.Cells {
			line[i] = Clean(cell)
		}
		all = append(all, line)
	}
	t.fit(all)
	for _, line := range all {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(line, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, line := range slices.Collect(strings.Lines(text.String())) {
		if t.Color && (!headed || i > 0) {
			line = colored(line, t.Headers, all[i])
		}
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	return nil
}

// Changed returns the rows that have changed since they were printed.
func (t *Table) Changed(rows []Row) []Row {
	if t.written == nil {
		t.written = map[string]string{}
	}
	var changed []Row
	for _, r := range rows {
		if before, known := t.written[r.Key]; !known || before != r.Version {
			changed = append(changed, r)
		}
		t.written[r.Key] = r.Version
	}
	return changed
}

// RoundDuration formats a duration as kubectl does, with the milliseconds of a short one.
func RoundDuration(d time.Duration) string {
	if d = max(0, d); d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return inspect.Age(d)
}

// PreciseDuration formats the duration of a call or write.
func PreciseDuration(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Ago returns the time since at; "" if at is zero.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return RoundDuration(now.Sub(at))
}

// In returns the time until at, such as "in 5s"; "" if at is zero.
func In(at, now time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case at.Before(now):
		return "now"
	}
	left := at.Sub(now)
	if left < time.Minute {
		left = (left + time.Second - 1).Truncate(time.Second)
	}
	return "in " + RoundDuration(left)
}

// Plural returns a count with its noun: "1 child", "2 children".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
