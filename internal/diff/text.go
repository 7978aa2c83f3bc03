package diff

import (
	"slices"
	"strings"
)

// Line is a line of a diff.
type Line struct {
	// Sign is '-' for a removed line, '+' for an added one, ' ' for an unchanged one, and
	// '@' for omitted unchanged lines: Skipped is their number, and Text is empty.
	Sign    rune
	Text    string
	Skipped int
}

// Text is the diff of two texts.
type Text struct {
	Lines []Line
	// Added and Removed are the numbers of these lines.
	Added, Removed int
	// Approximate is set if the texts differ too much: all lines between the first and the
	// last difference count as changed.
	Approximate bool
	// Truncated is set if lines are missing at the end.
	Truncated bool
}

const (
	// contextLines is the number of unchanged lines around changes.
	contextLines = 3
	// maxEdits limits the search, whose memory grows with its square.
	maxEdits = 800
	// maxLines limits the lines of a diff.
	maxLines = 2000
)

// Texts compares two texts line by line.
func Texts(before, after string) Text {
	a, b := split(before), split(after)
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	signs, found := shortestEdit(a[head:len(a)-tail], b[head:len(b)-tail])
	all := strings.Repeat(" ", head) + signs + strings.Repeat(" ", tail)
	text := Text{Approximate: !found, Added: strings.Count(all, "+"), Removed: strings.Count(all, "-")}
	text.Lines, text.Truncated = withContext(toLines(all, a, b))
	return text
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// toLines returns the line of each sign.
func toLines(signs string, a, b []string) []Line {
	lines := make([]Line, 0, len(signs))
	i, j := 0, 0
	for _, sign := range signs {
		line := Line{Sign: sign}
		if sign != '+' {
			line.Text = a[i]
			i++
		}
		if sign != '-' {
			line.Text = b[j]
			j++
		}
		lines = append(lines, line)
	}
	return lines
}

// withContext omits unchanged lines that are far from changes.
func withContext(all []Line) (lines []Line, cut bool) {
	near := make([]bool, len(all))
	for i, line := range all {
		if line.Sign != ' ' {
			for k := max(0, i-contextLines); k <= min(len(all)-1, i+contextLines); k++ {
				near[k] = true
			}
		}
	}
	for i, line := range all {
		last := len(lines) - 1
		switch {
		case len(lines) == maxLines:
			return lines, true
		case near[i]:
			lines = append(lines, line)
		case last >= 0 && lines[last].Sign == '@':
			lines[last].Skipped++
		default:
			lines = append(lines, Line{Sign: '@', Skipped: 1})
		}
	}
	return lines, false
}

// shortestEdit returns the shortest edit script, one sign per line, and whether it was found
// within the limit. If not, all lines are removed and added.
func shortestEdit(a, b []string) (signs string, found bool) {
	var trail [][]int
	reach := []int{0, 0, 0}
	for d := 0; d <= min(maxEdits, len(a)+len(b)); d++ {
		next := make([]int, 2*d+3)
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				sign, start := step(reach, d, k)
				x = start + linesConsumed(sign)
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			next[k+d+1] = x
			if x >= len(a) && x-k >= len(b) {
				return retrace(append(trail, next), len(a), len(b)), true
			}
		}
		trail = append(trail, next)
		reach = next
	}
	return strings.Repeat("-", len(a)) + strings.Repeat("+", len(b)), false
}

// step returns the edit that reaches diagonal k with d edits, and where it starts in the first
// text: down from the diagonal above, or right from the one below. reach holds the positions
// after d-1 edits, diagonal -d first.
func step(reach []int, d, k int) (sign byte, start int) {
	above, below := k+1+d, k-1+d
	if k == -d || k != d && reach[below] < reach[above] {
		return '+', reach[above]
	}
	return '-', reach[below]
}

// retrace follows the trail back from the end of both texts.
func retrace(trail [][]int, x, y int) string {
	signs := make([]byte, 0, x+y)
	for d := len(trail) - 1; d > 0; d-- {
		k := x - y
		sign, start := step(trail[d-1], d, k)
		for ; x > start+linesConsumed(sign); x-- {
			signs = append(signs, ' ')
		}
		signs = append(signs, sign)
		x, y = start, start-k+1
		if sign == '+' {
			y = start - k - 1
		}
	}
	signs = append(signs, strings.Repeat(" ", x)...)
	slices.Reverse(signs)
	return string(signs)
}

// linesConsumed returns the number of lines of the first text that an edit consumes.
func linesConsumed(sign byte) int {
	if sign == '-' {
		return 1
	}
	return 0
}
