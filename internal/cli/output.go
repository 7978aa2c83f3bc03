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
)

// clean is a text of somebody else in a line of a terminal: nothing in it moves the
// cursor, or hides.
func clean(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(diff.EscapeInvisible(strings.ToValidUTF8(text, "�")))
}

// row is one line of a table.
type row struct {
	cells []string
	// version tells whether the row has changed: what passes with time does not count.
	version string
	// key identifies what the row is about, and value is all of it.
	key   string
	value any
	// name is what -o name shows.
	name string
}

// table writes rows below a head, those that were not written so before.
type table struct {
	headers []string
	written map[string]string
	started bool
	// color says that who reads wants it, bare that no heads are wanted.
	color, noHeaders bool
	// width is that of the terminal, into which the last column is cut; 0 for any.
	width int
}

// minLastColumn is how much of the last column is shown, however narrow the terminal.
const minLastColumn = 20

// fit cuts the last column to what the others leave of the terminal.
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

// columnGap is how many spaces are between columns.
const columnGap = 3

// write writes what is new.
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

// changed are the rows that were not written so before.
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

// encode writes a value as JSON or YAML, in which no character hides either.
func encode(out io.Writer, as string, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	// Of what is not ASCII, all is inside of strings.
	plain := []byte(escapeHidden(text.String()))
	if as == asYAML {
		var err error
		if plain, err = yaml.JSONToYAML(plain); err != nil {
			return err
		}
		// YAML takes characters that hide for printable ones.
		plain = []byte("---\n" + escapeHidden(string(plain)))
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

// moments of a day, by which durations are said.
const day = 24 * time.Hour

// roundDuration is a duration as people say it: 12s, 5m, 3h, 2d.
func roundDuration(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// preciseDuration is how long something took.
func preciseDuration(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// ago is how long ago something was; "" for never.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return roundDuration(now.Sub(at))
}

// in is in what time something will be; "" for never.
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

// short cuts a text that would fill a table, to so many characters and an ellipsis.
func short(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// plural is a number of things: "1 child", "2 children".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
