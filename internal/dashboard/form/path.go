package form

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Marks are suffixes of input names for what text cannot express.
const (
	// rowMark marks each row, so that empty rows are sent.
	rowMark = "row"
	// keyMark is the key of a map row.
	keyMark = "key"
	// setMark sends an empty object.
	setMark = "set"
	// nullMark sends null.
	nullMark = "null"
)

// step is a part of a name: a property, a row number, or a mark at the end.
type step struct {
	property string
	row      int
	isRow    bool
	mark     string
}

// propertyName appends a property to a name.
func propertyName(name, property string) string {
	if strings.ContainsAny(property, `.[]~"`) || property == "" {
		return name + "[" + strconv.Quote(property) + "]"
	}
	return name + "." + property
}

func rowName(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// split parses a name into its steps and its mark.
func split(name string) (steps []step, mark string, err error) {
	for name != "" {
		var s step
		switch name[0] {
		case '~':
			return steps, name[1:], nil
		case '.':
			end := strings.IndexAny(name[1:], ".[~") + 1
			if end == 0 {
				end = len(name)
			}
			s.property, name = name[1:end], name[end:]
		case '[':
			if s, name, err = splitBracket(name); err != nil {
				return nil, "", err
			}
		default:
			return nil, "", errors.New("invalid path")
		}
		steps = append(steps, s)
	}
	return steps, "", nil
}

func splitBracket(name string) (s step, rest string, err error) {
	inner := name[1:]
	if quoted, err := strconv.QuotedPrefix(inner); err == nil {
		s.property, _ = strconv.Unquote(quoted)
		inner = inner[len(quoted):]
	} else {
		digits, _, _ := strings.Cut(inner, "]")
		s.isRow, inner = true, inner[len(digits):]
		s.row, err = strconv.Atoi(digits)
		if err != nil || s.row < 0 || s.row > MaxRow {
			return s, "", fmt.Errorf("row number must be from 0 to %d", MaxRow)
		}
	}
	if !strings.HasPrefix(inner, "]") {
		return s, "", errors.New("missing closing bracket")
	}
	return s, inner[1:], nil
}

// elementID returns an element ID for an input name, usable in a CSS selector.
func elementID(name string) string {
	var id strings.Builder
	id.WriteString("f")
	steps, mark, _ := split(name)
	for _, s := range steps {
		id.WriteByte('-')
		if s.isRow {
			id.WriteString(strconv.Itoa(s.row))
			continue
		}
		id.WriteString(unsafeInID.ReplaceAllStringFunc(s.property, func(c string) string {
			r, _ := utf8.DecodeRuneInString(c)
			return fmt.Sprintf("_%x_", r)
		}))
	}
	if mark != "" {
		id.WriteString("--" + mark)
	}
	return id.String()
}

// unsafeInID matches the characters of a property that an element ID replaces by their code.
var unsafeInID = regexp.MustCompile(`[^a-zA-Z0-9]`)
