package form

import (
	"fmt"
	"math"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// MaxValues limits the values of an object: objects, lists and scalars at all levels. A limit
// of bytes is not enough, since an empty object takes two bytes as text and about a hundred in
// memory.
const MaxValues = 50_000

// limitJSON rejects too large JSON before it is decoded.
func limitJSON(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("it has more than %d bytes: %w", MaxBytes, ErrInputTooLarge)
	}
	if object.LimitValues(data, MaxValues) != nil {
		return fmt.Errorf("it has more than %d values: %w", MaxValues, ErrInputTooLarge)
	}
	return nil
}

// limitYAML rejects too large YAML before it is parsed. It counts characters that can start a
// value, without allocating memory. Text scalars are skipped where they are unambiguous.
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

// maxAliasCopies returns how many copies so many aliases can create: in the worst case, e
// aliases on each level.
func maxAliasCopies(aliases int) float64 { return math.Exp(float64(aliases) / math.E) }

// countAliases returns an upper bound of the aliases.
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

// isNameByte reports whether a byte can be in an alias or a plain key.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// countValues returns an upper bound of the values: each follows a comma, an opening bracket, a
// colon, a dash or a question mark, or is the first.
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

// countOutsideText counts values and aliases outside of scalars. It counts everything where the
// structure is uncertain, and stops early above the limit.
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

// memberValue returns the indentation of a line and where its value starts; 0 for lines without
// a key.
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

// skipSpaces returns the end of the spaces at an index.
func skipSpaces(line string, at int) int {
	for at < len(line) && line[at] == ' ' {
		at++
	}
	return at
}

// isBlockScalar reports whether a value is the header of a block scalar.
func isBlockScalar(value string) bool {
	switch value {
	case "|", "|-", "|+", ">", ">-", ">+":
		return true
	}
	return false
}

// isPlainScalar reports whether a value is a plain scalar that contains nothing else.
func isPlainScalar(value string) bool {
	if value == "" || hasUnusualBreak(value) || value[0] <= ' ' || strings.IndexByte(",[]{}#&*!|>'\"%@`", value[0]) >= 0 {
		return false
	}
	if strings.IndexByte("-?:", value[0]) >= 0 {
		return len(value) > 1 && value[1] > ' '
	}
	return true
}

// hasUnusualBreak reports whether text has a line break other than a newline.
func hasUnusualBreak(text string) bool {
	return strings.IndexByte(text, '\r') >= 0 || strings.Contains(text, "\u0085") ||
		strings.Contains(text, "\u2028") || strings.Contains(text, "\u2029")
}

// blockEnd returns the end of a block that is indented deeper than indent.
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

// quoteEnd returns the end of the line on which a quoted scalar ends; -1 if more follows on it.
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
