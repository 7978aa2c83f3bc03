package dashboard

import (
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// templateFuncs returns the functions of the templates.
func (s *Server) templateFuncs() template.FuncMap {
	return template.FuncMap{
		"asset":             s.assets.url,
		"ago":               func(t time.Time) string { return humanDuration(s.now().Sub(t)) },
		"until":             func(t time.Time) string { return humanDuration(t.Sub(s.now())) },
		"inDuration":        func(t time.Time) string { return humanUntil(t.Sub(s.now())) },
		"past":              func(t time.Time) bool { return t.Before(s.now().Add(time.Second)) },
		"timestamp":         timestamp,
		"timeOfDay":         timeOfDay,
		"longText":          longText,
		"shorten":           shorten,
		"value":             diff.Value,
		"duration":          formatDuration,
		"bytes":             formatBytes,
		"count":             formatCount,
		"plural":            pluralize,
		"significantFields": significantFields,
		"firstFields":       firstFields,
		"sign":              signOf,
		"dict":              dict,
		"disabledReasons":   disabledReasons,
		"live":              liveAttributes,
		"tone":              tone,
		"responseTone":      responseTone,
		"title":             capitalize,
		"words":             breakableWords,
		"join":              strings.Join,
		"controllerURL":     controllerURL,
		"resourceURL":       resourceURL,
		"objectURL":         objectURL,
		"icon":              icon,
		"iconPath":          iconPath,
	}
}

// wordStart matches the beginning of a word within a name in CamelCase.
var wordStart = regexp.MustCompile(`[a-z0-9][A-Z]`)

// breakableWords returns a name in CamelCase that lines break between its words.
func breakableWords(name string) template.HTML {
	escaped := template.HTMLEscapeString(name)
	//nolint:gosec // It is escaped.
	return template.HTML(wordStart.ReplaceAllStringFunc(escaped, func(at string) string { return at[:1] + "<wbr>" + at[1:] }))
}

// liveAttributes returns the attributes of an element that refreshes itself: it reloads its
// page on a change and takes the element with its ID.
func liveAttributes(id, here string) template.HTMLAttr {
	escape := template.HTMLEscapeString
	//nolint:gosec // Both are escaped.
	return template.HTMLAttr(fmt.Sprintf(
		`id="%[1]s" hx-get="%[2]s" hx-select="#%[1]s" hx-trigger="live" hx-swap="morph:outerHTML" hx-sync="this:drop" hx-disinherit="*"`,
		escape(id), escape(here)))
}

// dict returns a map of names and values, to pass several values to a template.
func dict(pairs ...any) map[string]any {
	all := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		all[fmt.Sprint(pair[0])] = pair[1]
	}
	return all
}

// humanDuration formats a duration like kubectl: "12s", "3m", "5h", "2d".
func humanDuration(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return inspect.Age(d)
}

// timestamp formats a time as RFC 3339.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// humanUntil formats a future duration: "in 5s".
func humanUntil(d time.Duration) string {
	if d < time.Second {
		return "in a moment"
	}
	return "in " + humanDuration(d)
}

// timeOfDay formats the time of day.
func timeOfDay(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("15:04:05Z")
}

// maxShortText limits texts that should be short.
const maxShortText = 400

// shorten returns untrusted text, truncated and with invisible characters escaped.
func shorten(text any) string { return diff.Shorten(fmt.Sprint(text), maxShortText) }

// maxLongText limits texts that may be long.
const maxLongText = 8000

// longText returns untrusted text of several lines, truncated and with invisible characters
// escaped.
func longText(text any) string { return diff.Shorten(fmt.Sprint(text), maxLongText) }

// formatDuration formats a measured duration: "850µs", "12.3ms".
func formatDuration(d time.Duration) string {
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
		return humanDuration(d)
	}
}

// formatBytes formats a size: "12 MB".
func formatBytes(n any) string {
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

// formatCount formats a number with thousands separators.
func formatCount(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// pluralize returns "1 object" or "3 objects".
func pluralize(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + more
}

// capitalize makes the first letter upper case.
func capitalize(text string) string {
	runes := []rune(text)
	if len(runes) > 0 {
		runes[0] = unicode.ToUpper(runes[0])
	}
	return string(runes)
}

// tone returns the CSS class for a state, an outcome or the status of a condition: "good",
// "bad", "warn", "wait" or "neutral".
func tone(state any) string {
	switch fmt.Sprint(state) {
	case string(inspect.StateSynced), "Current", "True", "synced", "allowed", "mutated", "Normal", "ready", "ok":
		return "good"
	case string(inspect.StateFailing), string(processCrashed), string(processUnreachable), "Failed", "False", "failed", "denied", "gone",
		"error", "panic":
		return "bad"
	case string(inspect.StateConflicting), "Warning", "Terminating", "delete", "deleted", "evict":
		return "warn"
	case string(inspect.StateQueued), "InProgress", "postponed", "create", "update", "apply":
		return "wait"
	default:
		return "neutral"
	}
}

// responseTone returns the CSS class for the result of a call: an HTTP status code or a word.
func responseTone(outcome string) string {
	switch {
	case strings.HasPrefix(outcome, "2"), strings.HasPrefix(outcome, "3"):
		return "good"
	case outcome == "429":
		return "warn"
	case outcome != "" && outcome[0] >= '0' && outcome[0] <= '9':
		return "bad"
	}
	return tone(outcome)
}
