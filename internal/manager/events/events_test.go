package events

import (
	"strings"
	"testing"
)

// An event has no half of the roles in a condition.
func TestEventText(t *testing.T) {
	const rest = "; see the condition Accepted for the rest"
	roles := "\nkind: Role\n" + strings.Repeat("- rule\n", 200)
	for name, c := range map[string]struct{ message, want string }{
		"short":        {"Setpoint may not\nkind: Role", "Setpoint may not\nkind: Role"},
		"roles":        {"Setpoint may not list pods" + roles, "Setpoint may not list pods" + rest},
		"a long line":  {strings.Repeat("é", 600) + roles, strings.Repeat("é", 490) + "…" + rest},
		"and no roles": {strings.Repeat("a", 1100), strings.Repeat("a", 980) + "…" + rest},
	} {
		if got := Text(c.message, rest); got != c.want || len(got) > maxMessage {
			t.Errorf("%s: %q of %d bytes, want %q", name, got, len(got), c.want)
		}
	}
}
