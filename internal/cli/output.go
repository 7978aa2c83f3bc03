package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// clean makes untrusted text safe to print: it escapes control and invisible characters.
func clean(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(diff.EscapeInvisible(strings.ToValidUTF8(text, "�")))
}

// column is a cell with the header of its column; wide columns are for -o wide.
type column struct {
	header, cell string
	wide         bool
}

// row is one row of a table.
type row struct {
	headers, cells []string
	// version changes if the row does, ignoring ages and other relative times.
	version string
	// key identifies the object of the row, value is the object.
	key   string
	value any
	// name is printed by -o name.
	name string
}

// table prints rows under headers, skipping rows that have not changed.
type table struct {
	headers []string
	written map[string]string
	started bool
	// color enables styles, noHeaders omits the headers.
	color, noHeaders bool
	// width is the width of the terminal, to which the last column is cut; 0 is unlimited.
	width int
}

// minLastColumn is the minimum width of the last column.
const minLastColumn = 20

// fit cuts the last column to the remaining width of the terminal.
func (t *table) fit(lines [][]string) {
	if t.width == 0 || len(t.headers) == 0 {
		return
	}
	last := len(t.headers) - 1
	left := t.width
	for column := range last {
		widest := 0
		for _, line := range lines {
			widest = max(widest, utf8.RuneCountInString(line[column]))
		}
		left -= widest + columnGap
	}
	left = max(left, minLastColumn)
	for _, line := range lines {
		if utf8.RuneCountInString(line[last]) > left {
			line[last] = short(line[last], left-1)
		}
	}
}

// columnGap is the number of spaces between columns.
const columnGap = 3

// write prints the rows that have changed.
func (t *table) write(out io.Writer, rows []row) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, columnGap, ' ', 0)
	var all [][]string
	headed := !t.started && !t.noHeaders
	if headed {
		all = append(all, slices.Clone(t.headers))
	}
	t.started = true
	for _, r := range t.changed(rows) {
		line := make([]string, len(r.cells))
		for i, cell := range r.cells {
			line[i] = clean(cell)
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
		if t.color && (!headed || i > 0) {
			line = colored(line, t.headers, all[i])
		}
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	return nil
}

// changed returns the rows that have changed since they were printed.
func (t *table) changed(rows []row) []row {
	if t.written == nil {
		t.written = map[string]string{}
	}
	var changed []row
	for _, r := range rows {
		if before, known := t.written[r.key]; !known || before != r.version {
			changed = append(changed, r)
		}
		t.written[r.key] = r.version
	}
	return changed
}

// encode prints a value as JSON or YAML, with invisible characters escaped. One that is nested too
// deep for indentation is JSON on one line, which is YAML too.
func encode(out io.Writer, as string, value any) error {
	var compact bytes.Buffer
	encoder := json.NewEncoder(&compact)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	text, indented := object.Indent(compact.Bytes())
	// Characters beyond ASCII occur in strings only.
	plain := []byte(escapeHidden(string(text)))
	if as == asYAML && indented {
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

// roundDuration formats a duration as kubectl does, with the milliseconds of a short one.
func roundDuration(d time.Duration) string {
	if d = max(0, d); d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return inspect.Age(d)
}

// preciseDuration formats the duration of a call or write.
func preciseDuration(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// ago returns the time since at; "" if at is zero.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return roundDuration(now.Sub(at))
}

// in returns the time until at, such as "in 5s"; "" if at is zero.
func in(at, now time.Time) string {
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
	return "in " + roundDuration(left)
}

// short cuts a text to a number of characters and adds an ellipsis.
func short(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// plural returns a count with its noun: "1 child", "2 children".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
