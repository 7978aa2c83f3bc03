package diff

import (
	"slices"
	"strings"
)

// Line is a line of a comparison.
type Line struct {
	// Sign is '-' for one that goes, '+' for one that comes, ' ' for one that stays,
	// and '@' for some that stay and are left out: Text is empty, Skipped how many.
	Sign    rune
	Text    string
	Skipped int
}

// Text is what two texts differ in.
type Text struct {
	Lines []Line
	// Added and Removed are how many lines came and went.
	Added, Removed int
	// Approximate says that the texts differ in so much that no common lines were looked
	// for between the first and the last difference.
	Approximate bool
	// Truncated says that not all lines are here.
	Truncated bool
}

const (
	// contextLines is how many lines that stay are shown about those that do not.
	contextLines = 3
	// maxEdits is how many differences are looked for: the memory that takes grows
	// with its square.
	maxEdits = 800
	// maxLines is how many lines are shown.
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

// toLines gives each sign its line.
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

// withContext leaves out lines that stay and are far from any that does not.
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

// shortestEdit is the shortest way from one text to another, a sign for each line; and
// whether it was found within bounds. If not, all goes and all comes.
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

// step is by what the diagonal k is reached with d edits, and from how far into the
// first text: down from the diagonal above, or right from the one below. reach holds
// what d-1 edits reached, the diagonal -d first.
func step(reach []int, d, k int) (sign byte, start int) {
	above, below := k+1+d, k-1+d
	if k == -d || k != d && reach[below] < reach[above] {
		return '+', reach[above]
	}
	return '-', reach[below]
}

// retrace walks the way back from the end of both texts.
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

// linesConsumed is how many lines of the first text an edit takes.
func linesConsumed(sign byte) int {
	if sign == '-' {
		return 1
	}
	return 0
}
