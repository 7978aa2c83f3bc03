package form

import (
	"fmt"
	"math"
	"regexp"
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
		return fmt.Errorf("it has more than %d bytes: %w", MaxBytes, ErrTooMuch)
	}
	if object.LimitValues(data, MaxValues) != nil {
		return fmt.Errorf("it has more than %d values: %w", MaxValues, ErrTooMuch)
	}
	return nil
}

// limitYAML is limitJSON for YAML. Its values are counted by the characters that can
// begin one; those of a text count only if it might be something else.
func limitYAML(text string) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("it has more than %d bytes: %w", MaxBytes, ErrTooMuch)
	}
	if !strings.Contains(text, "*") && beginnings(text) <= MaxValues {
		return nil
	}
	text = withoutTexts(text)
	if values := float64(beginnings(text)); values*copies(text) > MaxValues {
		return fmt.Errorf("it has more than %d values: %w", MaxValues, ErrTooMuch)
	}
	return nil
}

var alias = regexp.MustCompile(`(?:^|[\s\[{,:?-])\*[0-9A-Za-z_-]`)

// copies is how many copies of a value the aliases of a text make at most: with those of
// each level copying all below it e times, which is the worst there is.
func copies(text string) float64 {
	return math.Exp(float64(len(alias.FindAllStringIndex(text, -1))) / math.E)
}

// beginnings is at least the number of values of a text: each stands behind a comma, an
// opening bracket, a colon, a dash or a question mark, or is the first one.
func beginnings(text string) int {
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

var (
	// member is the beginning of a line that has the name of a member, up to its value.
	member = regexp.MustCompile(`^( *(?:- +)*)[A-Za-z0-9._/-]+: +`)
	// block is all of a value whose text follows on lines of their own.
	block = regexp.MustCompile(`^[|>][-+]?$`)
	// bare is a value that is a text without quotes, in which nothing else can begin.
	bare = regexp.MustCompile("^(?:[^-?:,\\[\\]{}#&*!|>'\"%@`\\s]|[-?:]\\S)[^\r\u0085\u2028\u2029]*$")
	// unclear is what may make another sense of the lines that follow it.
	unclear = regexp.MustCompile(`["'\[{|>\r\x{85}\x{2028}\x{2029}]`)
)

// withoutTexts leaves out the texts that are values of members, bare, quoted, or as blocks. It
// keeps all that follows something of which it is not certain what that is, and ends
// early where too much is kept already.
func withoutTexts(text string) string {
	var kept strings.Builder
	for values := 0; text != "" && values <= MaxValues; {
		line, _, _ := strings.Cut(text, "\n")
		at := member.FindStringSubmatchIndex(line)
		end := 0
		switch {
		case at == nil:
		case block.MatchString(line[at[1]:]):
			end = len(line) + 1 + blockEnd(text[min(len(line)+1, len(text)):], at[3])
			line = line[:at[1]]
		case bare.MatchString(line[at[1]:]):
			end = len(line) + 1
			line = line[:at[1]]
		case line[at[1]:] != "" && strings.IndexByte(`"'`, line[at[1]]) >= 0:
			end = quoteEnd(text, at[1])
			line = line[:at[1]]
		}
		if unclear.MatchString(line) || end < 0 {
			kept.WriteString(text)
			break
		}
		kept.WriteString(line + "\n")
		values += beginnings(line) - 1
		text = text[min(max(end, len(line)+1), len(text)):]
	}
	return kept.String()
}

// blockEnd is where a block of text ends that lies deeper than an indentation.
func blockEnd(text string, indent int) int {
	end := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		deep := len(line) - len(strings.TrimLeft(line, " "))
		if strings.Trim(line, " \n") != "" && deep <= indent || strings.ContainsAny(line, "\r\u0085\u2028\u2029") {
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
