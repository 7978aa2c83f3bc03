// Package format writes numbers, times and texts of others for people.
package format

import (
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"time"
	"unicode"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

var wordStart = regexp.MustCompile(`[a-z0-9][A-Z]`)

// Breakable returns a name in CamelCase that lines break between its words.
func Breakable(name string) template.HTML {
	escaped := template.HTMLEscapeString(name)
	//nolint:gosec // It is escaped.
	return template.HTML(wordStart.ReplaceAllStringFunc(escaped, func(at string) string { return at[:1] + "<wbr>" + at[1:] }))
}

// Age formats a duration like kubectl: "12s", "3m", "5h", "2d".
func Age(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return inspect.Age(d)
}

// Timestamp formats a time as RFC 3339.
func Timestamp(t time.Time) string { return utc(t, time.RFC3339) }

// TimeOfDay formats the time of day.
func TimeOfDay(t time.Time) string { return utc(t, "15:04:05Z") }

func utc(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

// Until formats a future duration: "in 5s".
func Until(d time.Duration) string {
	if d < time.Second {
		return "in a moment"
	}
	return "in " + Age(d)
}

// MaxShort limits texts that should be short.
const MaxShort = 400

// Shorten returns untrusted text, truncated and with invisible characters escaped.
func Shorten(text any) string { return diff.Shorten(fmt.Sprint(text), MaxShort) }

const maxLongText = 8000

// Long returns untrusted text of several lines, truncated and with invisible characters escaped.
func Long(text any) string { return diff.Shorten(fmt.Sprint(text), maxLongText) }

// Duration formats a measured duration: "850µs", "12.3ms".
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", max(1, d.Microseconds()))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return Age(d)
	}
}

// Bytes formats a size: "12 MB".
func Bytes(n any) string {
	value, err := strconv.ParseFloat(fmt.Sprint(n), 64)
	if err != nil {
		return fmt.Sprint(n)
	}
	unit := 0
	units := []string{"B", "KB", "MB", "GB", "TB"}
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if value < 10 && unit > 0 {
		return fmt.Sprintf("%.1f %s", value, units[unit])
	}
	return fmt.Sprintf("%.0f %s", value, units[unit])
}

// Count formats a number with thousands separators.
func Count(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Plural returns "1 object" or "3 objects".
func Plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + more
}

// Capitalize makes the first letter upper case.
func Capitalize(text string) string {
	runes := []rune(text)
	if len(runes) > 0 {
		runes[0] = unicode.ToUpper(runes[0])
	}
	return string(runes)
}
