package dryrun

import (
	"encoding/json"
	"slices"
	"strings"
)

// contextLines is how many lines that stay are shown about one that does not.
const contextLines = 2

// line is a line of a text, with ' ' before it if it stays, '-' if it goes, '+'
// if it comes, and '…' for some that stay and are left out.
type line struct {
	sign rune
	text string
}

func (l line) color() string { return map[rune]string{'-': red, '+': green}[l.sign] }

// multiline says that a value is a text of several lines.
func (f FieldChange) multiline() bool {
	_, before := multilineText(f.From)
	_, after := multilineText(f.To)
	return before || after
}

// multilineText reads a JSON string, and says whether it has several lines.
func multilineText(value json.RawMessage) (string, bool) {
	var read string
	if json.Unmarshal(value, &read) != nil {
		return "", false
	}
	return read, strings.Contains(strings.TrimSuffix(read, "\n"), "\n")
}

// lineDiff compares two texts line by line.
func lineDiff(before, after json.RawMessage) []line {
	return elide(diffLines(split(before), split(after)))
}

func split(value json.RawMessage) []string {
	if value == nil {
		return nil
	}
	read, _ := multilineText(value)
	return strings.Split(strings.TrimSuffix(read, "\n"), "\n")
}

// maxComparisons is how many pairs of lines are compared with each other. Longer texts are
// shown whole.
const maxComparisons = 1 << 22

// diffLines finds the longest sequence of lines that both have, and what is
// between them.
func diffLines(a, b []string) []line {
	if len(a)*len(b) > maxComparisons {
		return append(signedLines('-', a), signedLines('+', b)...)
	}
	common := commonLengths(a, b)
	var found []line
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			found = append(found, line{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			found = append(found, line{'-', a[i]})
			i++
		default:
			found = append(found, line{'+', b[j]})
			j++
		}
	}
	return append(append(found, signedLines('-', a[i:])...), signedLines('+', b[j:])...)
}

// commonLengths are the lengths of the longest common sequences of what is left
// of both from each pair of lines on.
func commonLengths(a, b []string) [][]int {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, left := range slices.Backward(a) {
		for j, right := range slices.Backward(b) {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if left == right {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	return common
}

func signedLines(sign rune, texts []string) []line {
	signed := make([]line, len(texts))
	for i, text := range texts {
		signed[i] = line{sign, text}
	}
	return signed
}

// elide leaves out lines that stay and are far from those that do not.
func elide(whole []line) []line {
	var kept []line
	for i, l := range whole {
		switch {
		case l.sign != ' ' || near(whole, i):
			kept = append(kept, l)
		case len(kept) == 0 || kept[len(kept)-1].sign != '…':
			kept = append(kept, line{sign: '…'})
		}
	}
	return kept
}

func near(whole []line, i int) bool {
	for j := max(0, i-contextLines); j <= min(len(whole)-1, i+contextLines); j++ {
		if whole[j].sign != ' ' {
			return true
		}
	}
	return false
}
