package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// none stands for a measure that does not apply.
const none = "–"

// Formats are the ways a report can be written.
func Formats() []string { return []string{"table", "markdown", "json"} }

// Write writes the report in one of the formats.
func (r *Report) Write(w io.Writer, as string) error {
	var text string
	switch as {
	case "table":
		text = r.text()
	case "markdown":
		text = r.markdown()
	case "json":
		body, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		text = string(body) + "\n"
	default:
		return fmt.Errorf("no output format %q; there are %s", as, strings.Join(Formats(), ", "))
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r *Report) text() string {
	var out strings.Builder
	for _, line := range r.Conditions {
		fmt.Fprintln(&out, line)
	}
	tables := r.tables()
	first := firstColumnWidth(tables)
	for _, t := range tables {
		fmt.Fprintf(&out, "\n%s\n", t.title)
		writeGrid(&out, t.grid, first)
	}
	return out.String()
}

func (r *Report) markdown() string {
	var out strings.Builder
	for _, line := range r.Conditions {
		fmt.Fprintf(&out, "- %s\n", line)
	}
	for _, t := range r.tables() {
		fmt.Fprintf(&out, "\n**%s**\n\n", t.title)
		for n, row := range t.grid {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
			if n == 0 {
				fmt.Fprintf(&out, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
			}
		}
	}
	return out.String()
}

// table is cells under a title, headings first.
type table struct {
	title string
	grid  [][]string
}

// tables are all there is to show: the goals, then what was measured.
func (r *Report) tables() []table {
	var tables []table
	if len(r.Goals) > 0 {
		tables = append(tables, table{"goals", goalGrid(r.Goals)})
	}
	for i := range r.Sections {
		tables = append(tables, table{r.Sections[i].Title, r.Sections[i].grid(r.Baseline)})
	}
	return tables
}

// grid is the section as cells, headings first. It omits measures
// that no contender has.
func (s *Section) grid(baseline string) [][]string {
	grid := [][]string{{"contender"}}
	for _, row := range s.Rows {
		grid = append(grid, []string{row.Contender})
	}
	for _, column := range s.Columns {
		if s.shows(column) {
			s.addColumn(grid, column, baseline)
		}
	}
	return grid
}

func (s *Section) shows(column Column) bool {
	return slices.ContainsFunc(s.Rows, func(row Row) bool {
		value, ok := row.Values[column.Key]
		return ok && (value != 0 || !column.Sparse)
	})
}

// addColumn appends a column, and that of its ratios, to a grid.
func (s *Section) addColumn(grid [][]string, column Column, baseline string) {
	base, _ := s.Row(baseline)
	_, compared := base.Ratios[column.Key]
	grid[0] = append(grid[0], column.Title)
	if compared {
		grid[0] = append(grid[0], "×")
	}
	for i, row := range s.Rows {
		cell := none
		if value, ok := row.Values[column.Key]; ok {
			cell = Format(value, column.Unit)
		}
		grid[i+1] = append(grid[i+1], cell)
		if compared {
			grid[i+1] = append(grid[i+1], formatRatio(row.Ratios[column.Key]))
		}
	}
}

// formatRatio shows the spread of several rounds too: a median close to a limit
// means little when the rounds lie on both sides of it.
func formatRatio(ratio Range) string {
	switch {
	case ratio.Median == 0:
		return none
	case ratio.varies():
		return fmt.Sprintf("%.2f (%.2f–%.2f)", ratio.Median, ratio.Low, ratio.High)
	}
	return fmt.Sprintf("%.2f", ratio.Median)
}

// Format writes a number in its unit.
func Format(value float64, unit Unit) string {
	switch unit {
	case Seconds:
		return fmt.Sprintf("%.2f s", value)
	case Millis:
		return fmt.Sprintf("%.2f ms", value)
	case MiB:
		return fmt.Sprintf("%.1f MiB", value)
	case Bytes:
		return fmt.Sprintf("%.0f B", value)
	case Count:
		return strconv.FormatFloat(value, 'f', 0, 64)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}

// firstColumnWidth makes the sections' first columns equally wide.
func firstColumnWidth(tables []table) int {
	width := 0
	for _, t := range tables {
		for _, row := range t.grid {
			width = max(width, utf8.RuneCountInString(row[0]))
		}
	}
	return width
}

// writeGrid aligns the first column left and the others right.
func writeGrid(out *strings.Builder, grid [][]string, first int) {
	widths := make([]int, len(grid[0]))
	for _, row := range grid {
		for c, cell := range row {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range grid {
		fmt.Fprintf(out, "  %-*s", first, row[0])
		for c, cell := range row[1:] {
			fmt.Fprintf(out, "  %*s", widths[c+1], cell)
		}
		out.WriteByte('\n')
	}
}
