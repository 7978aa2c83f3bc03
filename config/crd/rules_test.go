package crd_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// ruleOf is the first pattern in the rules of a field of a handler.
func ruleOf(t *testing.T, names ...string) *regexp.Regexp {
	t.Helper()
	s := schemaOf(t, ourHandler).at(append([]string{"spec", "handlers"}, names...)...)
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		one, _ := rule.(map[string]any)
		text, _ := one["rule"].(string)
		if found := regexp.MustCompile(`^!?self[.]matches[(]r?["'](.*?)["'][)]`).FindStringSubmatch(text); found != nil {
			return regexp.MustCompile(found[1])
		}
	}
	t.Fatalf("no pattern for %v in %v", names, rules)
	return nil
}

// Fault H12: the API server refuses what is no cron expression. What it accepts and the
// calendar does not, such as the 30th of February, the condition Accepted reports.
func TestScheduleRule(t *testing.T) {
	rule := ruleOf(t, "schedule")
	for _, expression := range []string{
		"30 4 * * mon-fri", "*/20 * * * *", "0 0 29 2 *", "@hourly", " @daily ", "TZ=Europe/Berlin 0 6 * * *", "CRON_TZ=Asia/Tokyo  @daily",
		"0,15,30-45/5 0-23 1,31 JAN-Dec ?", "59 23 31 12 6", "05 04 01 02 00", "1/7 * * jun,jul SUN", "TZ=Etc/GMT+3 0 0 * * *", "0\t0  * * *",
	} {
		if _, err := schedule.Parse(expression); err != nil || !rule.MatchString(expression) {
			t.Errorf("%q: the calendar says %v, the rule %v", expression, err, rule.MatchString(expression))
		}
	}
	for _, expression := range []string{
		"61 * * * *", "* 24 * * *", "* * 32 * *", "* * 0 * *", "* * * 13 *", "* * * 0 *", "* * * * 7", "* * * *", "0 0 * * * *", "every tuesday",
		"@every 1h", "@sometimes", "", " ", "TZ=UTC", "*/0 * * * *", "1- * * * *", "* * * * tues", "1-2-3 * * * *",
	} {
		if _, err := schedule.Parse(expression); err == nil || rule.MatchString(expression) {
			t.Errorf("%q: the calendar says %v, the rule %v", expression, err, rule.MatchString(expression))
		}
	}
}

// Fault H12: what the rule of a duration accepts can be converted, so that no rule ends in
// an error of conversion.
func TestDurationRules(t *testing.T) {
	for _, names := range [][]string{{"every"}, {"debounce"}, {"initialDelay"}, {"daemon", "stopTimeout"}, {"backoff", "max"}, {"webhook", "timeout"}} {
		rule := ruleOf(t, names...)
		for _, text := range []string{
			"1s", "500ms", "1h30m", "1h30m0s", "1.5h", "100ns", "3us", "3µs", "0s", "0.5s", "999999h9999999m999999999s", "999999999999999us",
		} {
			if _, err := time.ParseDuration(text); err != nil || !rule.MatchString(text) {
				t.Errorf("%s: %q: %v, the rule says %v", names, text, err, rule.MatchString(text))
			}
		}
		for _, text := range []string{"5x", "soon", "5", "-1s", "1 s", "1d", "9999999h", "9999999999h", ".s", strings.Repeat("9", 20) + "ns"} {
			if rule.MatchString(text) {
				t.Errorf("%s: the rule accepts %q", names, text)
			}
		}
	}
}
