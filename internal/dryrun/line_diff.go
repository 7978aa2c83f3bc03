package dryrun

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/diff"
)

// multiline reports whether a value is a string with several lines.
func (f FieldChange) multiline() bool {
	return isMultiline(f.From) || isMultiline(f.To)
}

func isMultiline(value json.RawMessage) bool {
	return strings.Contains(strings.TrimSuffix(decodeString(value), "\n"), "\n")
}

func decodeString(value json.RawMessage) string {
	var text string
	_ = json.Unmarshal(value, &text) // Values of other types have no lines.
	return text
}

// lines writes the differences of a multiline value.
func (p *printer) lines(f FieldChange, colored bool) {
	compared := diff.Texts(decodeString(f.From), decodeString(f.To))
	for _, l := range compared.Lines {
		color := ""
		if colored {
			color = map[rune]string{'-': red, '+': green}[l.Sign]
		}
		if l.Sign == '@' {
			l.Sign = '…'
		}
		p.line(5, color, "%c %s", l.Sign, l.Text)
	}
	if compared.Truncated {
		p.line(5, "", "…")
	}
}
