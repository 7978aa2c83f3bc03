package form

import (
	"fmt"
	"math"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// MaxValues is how many values an object may have that is read here: objects, lists and
// scalars at all depths. A size in bytes does not bound what is made of it: an empty
// object takes two bytes, and fifty times as much as a part of a tree.
const MaxValues = 50_000

// limitJSON refuses JSON of which too large a tree would become, before one is made.
func limitJSON(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("it has more than %d bytes: %w", MaxBytes, ErrInputTooLarge)
	}
	if object.LimitValues(data, MaxValues) != nil {
		return fmt.Errorf("it has more than %d values: %w", MaxValues, ErrInputTooLarge)
	}
	return nil
}

// limitYAML is limitJSON for YAML. Its values are counted by the characters that can
// begin one; those of a text count only if it might be something else. It needs no memory.
func limitYAML(text string) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("it has more than %d bytes: %w", MaxBytes, ErrInputTooLarge)
	}
	if !strings.Contains(text, "*") && countValues(text) <= MaxValues {
		return nil
	}
	if values, aliases := countOutsideText(text); float64(values)*maxAliasCopies(aliases) > MaxValues {
		return fmt.Errorf("it has more than %d values: %w", MaxValues, ErrInputTooLarge)
	}
	return nil
}

// maxAliasCopies is how many copies of a value so many aliases make at most: with those of
// each level copying all below it e times, which is the worst there is.
func maxAliasCopies(aliases int) float64 { return math.Exp(float64(aliases) / math.E) }

// countAliases is at least the number of aliases of a text.
func countAliases(text string) int {
	count := 0
	for at := strings.IndexByte(text, '*'); at >= 0; {
		if (at == 0 || text[at-1] <= ' ' || strings.IndexByte("[{,:?-", text[at-1]) >= 0) && at+1 < len(text) && isNameByte(text[at+1]) {
			count++
		}
		next := strings.IndexByte(text[at+1:], '*')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return count
}

// isNameByte reports whether a byte can begin the name of an alias or be in one of a member.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// countValues is at least the number of values of a text: each stands behind a comma, an
// opening bracket, a colon, a dash or a question mark, or is the first one.
func countValues(text string) int {
	count := 1
	for i := range len(text) {
		switch text[i] {
		case ',', '[', '{':
			count++
		case ':', '-', '?':
			if i+1 == len(text) || text[i+1] <= ' ' || text[i] == ':' && strings.IndexByte(`"'[{]},`, text[i+1]) >= 0 {
				count++
			}
		}
	}
	return count
}

// countOutsideText counts the values and the aliases outside the texts that are values of
// members, bare, quoted, or as blocks. It counts all that follows something of which it
// is not certain what that is, and ends early where there is too much already.
func countOutsideText(text string) (values, aliases int) {
	for values = 1; text != "" && values <= MaxValues; {
		line, _, _ := strings.Cut(text, "\n")
		end := len(line) + 1
		if indent, at := memberValue(line); at > 0 {
			switch value := line[at:]; {
			case isBlockScalar(value):
				end += blockEnd(text[min(end, len(text)):], indent)
				line = line[:at]
			case isPlainScalar(value):
				line = line[:at]
			case value != "" && (value[0] == '"' || value[0] == '\''):
				end = quoteEnd(text, at)
				line = line[:at]
			}
		}
		if end < 0 || strings.ContainsAny(line, "\"'[{|>") || hasUnusualBreak(line) {
			return values + countValues(text) - 1, aliases + countAliases(text)
		}
		values, aliases = values+countValues(line)-1, aliases+countAliases(line)
		text = text[min(end, len(text)):]
	}
	return values, aliases
}

// memberValue is where the value begins of a line that begins with the name of a member, behind
// spaces and the dashes of lists, and how deep it is indented; 0 for other lines.
func memberValue(line string) (indent, value int) {
	at := skipSpaces(line, 0)
	for strings.HasPrefix(line[at:], "- ") {
		at = skipSpaces(line, at+1)
	}
	indent = at
	for at < len(line) && (isNameByte(line[at]) || line[at] == '.' || line[at] == '/') {
		at++
	}
	if at == indent || !strings.HasPrefix(line[at:], ": ") {
		return 0, 0
	}
	return indent, skipSpaces(line, at+1)
}

// skipSpaces is where those end that begin at a place.
func skipSpaces(line string, at int) int {
	for at < len(line) && line[at] == ' ' {
		at++
	}
	return at
}

// isBlockScalar says of a value that its text follows on lines of their own.
func isBlockScalar(value string) bool {
	switch value {
	case "|", "|-", "|+", ">", ">-", ">+":
		return true
	}
	return false
}

// isPlainScalar says of a value that it is a text without quotes, in which nothing else can begin.
func isPlainScalar(value string) bool {
	if value == "" || hasUnusualBreak(value) || value[0] <= ' ' || strings.IndexByte(",[]{}#&*!|>'\"%@`", value[0]) >= 0 {
		return false
	}
	if strings.IndexByte("-?:", value[0]) >= 0 {
		return len(value) > 1 && value[1] > ' '
	}
	return true
}

// hasUnusualBreak reports whether a text has a line break other than a newline.
func hasUnusualBreak(text string) bool {
	return strings.IndexByte(text, '\r') >= 0 || strings.Contains(text, "\u0085") ||
		strings.Contains(text, "\u2028") || strings.Contains(text, "\u2029")
}

// blockEnd is where a block of text ends that lies deeper than an indentation.
func blockEnd(text string, indent int) int {
	end := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		deep := len(line) - len(strings.TrimLeft(line, " "))
		if strings.Trim(line, " \n") != "" && deep <= indent || hasUnusualBreak(line) {
			break
		}
		end += len(line)
	}
	return end
}

// quoteEnd is where the line ends on which a quoted text does that begins at a place; -1
// if there is more on it.
func quoteEnd(text string, at int) int {
	quote := text[at]
	for at++; at < len(text); at++ {
		switch {
		case text[at] == '\\' && quote == '"':
			at++
		case text[at] == quote && quote == '\'' && strings.HasPrefix(text[at+1:], "'"):
			at++
		case text[at] == quote:
			rest, _, _ := strings.Cut(text[at+1:], "\n")
			if strings.Trim(rest, " ") != "" {
				return -1
			}
			return at + 1 + len(rest) + 1
		}
	}
	return -1
}
