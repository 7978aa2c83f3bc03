package dashboard

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/diff"
)

// templateFuncs are what templates can call.
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
		"dict":              dict,
		"list":              func(values ...any) []any { return values },
		"live":              liveAttributes,
		"tone":              tone,
		"responseTone":      responseTone,
		"title":             capitalize,
		"join":              strings.Join,
		"controllerURL":     controllerURL,
		"resourceURL":       resourceURL,
		"objectURL":         objectURL,
		"sparkline":         sparkline,
		"icon":              icon,
	}
}

// liveAttributes are the attributes of an element that refreshes itself: it asks for its page
// again when there was a change, and takes what has its id there. The attributes of
// open parts, the focus and what is typed stay.
func liveAttributes(id, here string) template.HTMLAttr {
	escape := template.HTMLEscapeString
	//nolint:gosec // Both are escaped.
	return template.HTMLAttr(fmt.Sprintf(
		`id="%[1]s" hx-get="%[2]s" hx-select="#%[1]s" hx-trigger="live" hx-swap="morph:outerHTML" hx-sync="this:drop" hx-disinherit="*"`,
		escape(id), escape(here)))
}

// dict is a map of names and values, for a part that needs several things.
func dict(pairs ...any) (map[string]any, error) {
	all := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		all[name] = pairs[i+1]
	}
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %v has no value", pairs[len(pairs)-1])
	}
	return all, nil
}

// humanDuration is a time that passes, as one reads it at a glance: "12s", "3m", "5h", "2d".
func humanDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// timestamp is a moment in full, such as a machine and a person can read.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// humanUntil is how soon something will be: "in 5s".
func humanUntil(d time.Duration) string {
	if d < time.Second {
		return "in a moment"
	}
	return "in " + humanDuration(d)
}

// timeOfDay is the time of day of a moment. Where it was, the whole of it says.
func timeOfDay(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("15:04:05Z")
}

// maxShortText is how many characters are shown of what should be short, and may be not.
const maxShortText = 400

// shorten is a text of others that is not too long, and in which nothing hides.
func shorten(text any) string { return diff.Shorten(fmt.Sprint(text), maxShortText) }

// maxLongText is how many characters are shown of what may be long.
const maxLongText = 8000

// longText is a text of others that may have several lines, and in which nothing hides.
func longText(text any) string { return diff.Shorten(fmt.Sprint(text), maxLongText) }

// formatDuration is how long something took, with three figures at most: "850µs", "12.3ms".
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

// formatBytes is a number of bytes in words, such as "12 MB".
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

// formatCount is a number with thin gaps between its thousands.
func formatCount(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// pluralize is "1 object" or "3 objects".
func pluralize(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + more
}

// capitalize is a text that begins with a capital.
func capitalize(text string) string {
	runes := []rune(text)
	if len(runes) > 0 {
		runes[0] = unicode.ToUpper(runes[0])
	}
	return string(runes)
}

// tone is the class of a badge for a state, an outcome, a health or the status of a
// condition: "good", "bad", "warn", "wait" or "neutral".
func tone(state any) string {
	switch fmt.Sprint(state) {
	case string(model.StateSynced), "Current", "True", "synced", "allowed", "mutated", "Normal", "ready", "ok":
		return "good"
	case string(model.StateFailing), "Failed", "False", "failed", "denied", "gone", "error", "panic":
		return "bad"
	case string(model.StateConflicting), "Warning", "Terminating", "delete", "deleted", "evict":
		return "warn"
	case string(model.StateQueued), "InProgress", "postponed", "create", "update", "apply":
		return "wait"
	default:
		return "neutral"
	}
}

// responseTone is the tone of how a call ended: an HTTP status code, or a word.
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
