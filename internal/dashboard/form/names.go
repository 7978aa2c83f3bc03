package form

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Limits of a form. Larger objects can be edited as YAML.
const (
	MaxEntries = 10_000
	MaxBytes   = 4 << 20 // The API server accepts objects of at most 3 MiB.
	MaxRow     = 99_999
	MaxRows    = 500
	MaxFields  = 20_000
)

var (
	// ErrFormTooLarge is wrapped by errors about too large forms.
	ErrFormTooLarge = errors.New("too large for a form: use YAML")
	// ErrInputTooLarge is wrapped by errors about too large objects.
	ErrInputTooLarge = errors.New("too large for the dashboard: use kubectl")
)

// Marks are suffixes of input names for what text cannot express.
const (
	// rowMark marks each row, so that empty rows are sent.
	rowMark = "~row"
	// keyMark is the key of a map row.
	keyMark = "~key"
	// setMark sends an empty object.
	setMark = "~set"
)

func propertyName(name, property string) string {
	if strings.ContainsAny(property, `.[]~"`) || property == "" {
		return name + "[" + strconv.Quote(property) + "]"
	}
	return name + "." + property
}

func rowName(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// elementID returns an element ID for an input name, usable in a CSS selector.
func elementID(name string) string {
	return "f" + idPart.ReplaceAllStringFunc(name, func(c string) string {
		switch c {
		case ".", "[":
			return "-"
		case "]":
			return ""
		case "~":
			return "--"
		}
		r, _ := utf8.DecodeRuneInString(c)
		return fmt.Sprintf("_%x_", r)
	})
}

// idPart matches the characters of a name that an element ID has in other forms.
var idPart = regexp.MustCompile(`[^a-zA-Z0-9]`)

// input is what a form sends.
type input struct {
	values url.Values
	// rows are the numbers of the rows by the name of their list or map.
	rows map[string][]int
}

var rowNumber = regexp.MustCompile(`\[(\d+)\]`)

// parseInput reads the names of an input. Names without a leading dot or bracket are ignored.
func parseInput(values url.Values) (*input, error) {
	in, size := &input{url.Values{}, map[string][]int{}}, 0
	if len(values) > MaxEntries {
		return nil, fmt.Errorf("%d entries, at most %d are allowed: %w", len(values), MaxEntries, ErrFormTooLarge)
	}
	for name, texts := range values {
		if name == "" || name[0] != '.' && name[0] != '[' {
			continue
		}
		if len(texts) != 1 {
			return nil, fmt.Errorf("entry %q: entered %d times", failure.Truncate(name, 100), len(texts))
		}
		if size += len(name) + len(texts[0]); size > MaxBytes {
			return nil, fmt.Errorf("more than %d bytes: %w", MaxBytes, ErrFormTooLarge)
		}
		if in.values[name] = texts; !in.addRows(name) {
			return nil, fmt.Errorf("entry %q: more than %d rows: %w", failure.Truncate(name, 100), MaxRows, ErrFormTooLarge)
		}
	}
	for _, rows := range in.rows {
		slices.Sort(rows)
	}
	return in, nil
}

// addRows adds the rows in a name; false if there are too many.
func (in *input) addRows(name string) bool {
	for _, at := range rowNumber.FindAllStringSubmatchIndex(name, -1) {
		list := name[:at[0]]
		row, err := strconv.Atoi(name[at[2]:at[3]])
		switch {
		case err != nil || row > MaxRow:
			return false
		case slices.Contains(in.rows[list], row):
			continue
		case len(in.rows[list]) == MaxRows:
			return false
		}
		in.rows[list] = append(in.rows[list], row)
	}
	return true
}

// Add adds a row, named by Next of its list or map.
func Add(values url.Values, next string) {
	if strings.HasSuffix(next, "]") {
		values.Set(next+rowMark, "1")
	}
}

// Remove removes a row and its input.
func Remove(values url.Values, name string) {
	for each := range values {
		if rest, is := strings.CutPrefix(each, name); is && name != "" && (rest == "" || strings.ContainsAny(rest[:1], ".[~")) {
			delete(values, each)
		}
	}
}
