// Package schedule parses cron expressions for the compiler and the SDK. Package react
// runs the schedules.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // Small images have no database of time zones.

	"github.com/robfig/cron/v3"
)

// Cron is a parsed cron expression.
type Cron struct {
	// calendar has the matches on the clock of the zone, which is read as UTC.
	calendar   cron.SpecSchedule
	zone       *time.Location
	expression string
	// continuous means that minutes or hours begin with *: the schedule follows the time that passes, not the clock.
	continuous bool
}

// Parse parses five fields, such as "30 4 * * mon-fri", or one of @yearly, @monthly,
// @weekly, @daily and @hourly. Times are UTC unless the expression starts with a time
// zone, such as "TZ=Europe/Berlin ".
func Parse(expression string) (Cron, error) {
	timeZone, fields := "TZ=UTC", strings.TrimSpace(expression)
	if strings.HasPrefix(fields, "TZ=") || strings.HasPrefix(fields, "CRON_TZ=") {
		timeZone, fields, _ = strings.Cut(fields, " ")
		fields = strings.TrimSpace(fields)
	}
	switch {
	case fields == "":
		return Cron{}, fmt.Errorf(`the cron expression %q is empty; an example is "30 4 * * *"`, expression)
	case strings.HasPrefix(fields, "@every"):
		return Cron{}, fmt.Errorf("the cron expression %q is an interval; use an interval instead", expression)
	}
	parsed, err := cron.ParseStandard(timeZone + " " + fields)
	if err != nil {
		return Cron{}, fmt.Errorf("the cron expression %q: %w", expression, err)
	}
	c := Cron{calendar: *parsed.(*cron.SpecSchedule), expression: strings.TrimSpace(expression), continuous: isContinuous(fields)}
	c.zone, c.calendar.Location = c.calendar.Location, time.UTC
	if c.Next(time.Unix(0, 0)).IsZero() {
		return Cron{}, fmt.Errorf("the cron expression %q: %w", expression, errors.New("it never matches"))
	}
	return c, nil
}

// isContinuous reports whether the minutes or the hours of five fields, or of a name, begin with * or ?, which is the same.
func isContinuous(fields string) bool {
	times := append(strings.Fields(fields), "")
	return times[0] == "@hourly" || strings.IndexAny(times[0], "*?") == 0 || strings.IndexAny(times[1], "*?") == 0
}

// String returns the expression.
func (c Cron) String() string { return c.expression }

// Next returns the first time after t; zero if there is none within five years.
//
// When the clock of the zone is changed, it does what Vixie's cron does. A time that the clock skips comes right after
// the gap, once for all that it skips, and a time that it shows twice comes once. A schedule whose minutes or hours
// begin with * follows the time that passes.
func (c Cron) Next(t time.Time) time.Time {
	const years, moment = 5, time.Second // Cron knows no less than a second.
	from := shown(t.In(c.zone))
	for at, limit := t.In(c.zone), t.AddDate(years, 0, 0); at.Before(limit); {
		begin, end := at.ZoneBounds()
		if !begin.IsZero() && !c.continuous {
			if shownTwice := shown(begin.Add(-moment)); shownTwice.After(from) {
				from = shownTwice
			}
		}
		match := c.calendar.Next(from)
		if match.IsZero() {
			return match
		}
		if found := at.Add(match.Sub(shown(at))); end.IsZero() || found.Before(end) {
			return found.In(t.Location())
		}
		if match.Before(shown(end)) && !c.continuous {
			return end.In(t.Location())
		}
		at, from = end, shown(end).Add(-moment)
	}
	return time.Time{}
}

// shown returns what the clock of a zone shows at a time, as if it was UTC.
func shown(at time.Time) time.Time {
	_, offset := at.Zone()
	return at.Add(time.Duration(offset) * time.Second).UTC()
}
