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
	grids := make([][][]string, len(r.Sections))
	for i := range r.Sections {
		grids[i] = r.Sections[i].grid(r.Baseline)
	}
	first := firstColumnWidth(grids)
	for i, grid := range grids {
		fmt.Fprintf(&out, "\n%s\n", r.Sections[i].Title)
		writeGrid(&out, grid, first)
	}
	if len(r.Verdicts) > 0 {
		out.WriteString("\nGoals\n")
	}
	for _, verdict := range r.Verdicts {
		fmt.Fprintln(&out, "  "+verdict.Text)
	}
	return out.String()
}

func (r *Report) markdown() string {
	var out strings.Builder
	for _, line := range r.Conditions {
		fmt.Fprintf(&out, "- %s\n", line)
	}
	for i := range r.Sections {
		section := &r.Sections[i]
		fmt.Fprintf(&out, "\n**%s**\n\n", section.Title)
		for n, row := range section.grid(r.Baseline) {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
			if n == 0 {
				fmt.Fprintf(&out, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
			}
		}
	}
	if len(r.Verdicts) > 0 {
		out.WriteString("\n**Goals**\n\n")
	}
	for _, verdict := range r.Verdicts {
		fmt.Fprintf(&out, "- %s\n", strings.Join(strings.Fields(verdict.Text), " "))
	}
	return out.String()
}

// grid is the section as cells, headings first. Measures that nobody has are
// left out.
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
	base, comparable := s.value(baseline, column.Key)
	comparable = comparable && column.Ratio && base > 0
	grid[0] = append(grid[0], column.Title)
	if comparable {
		grid[0] = append(grid[0], "×")
	}
	for i, row := range s.Rows {
		cell, ratio := none, none
		if value, ok := row.Values[column.Key]; ok {
			cell, ratio = Format(value, column.Unit), fmt.Sprintf("%.2f", value/base)
		}
		grid[i+1] = append(grid[i+1], cell)
		if comparable {
			grid[i+1] = append(grid[i+1], ratio)
		}
	}
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
func firstColumnWidth(grids [][][]string) int {
	width := 0
	for _, grid := range grids {
		for _, row := range grid {
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
