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
	schedule   cron.Schedule
	expression string
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
	schedule, err := cron.ParseStandard(timeZone + " " + fields)
	if err == nil && schedule.Next(time.Unix(0, 0)).IsZero() {
		err = errors.New("it never matches")
	}
	if err != nil {
		return Cron{}, fmt.Errorf("the cron expression %q: %w", expression, err)
	}
	return Cron{schedule, strings.TrimSpace(expression)}, nil
}

// String returns the expression.
func (c Cron) String() string { return c.expression }

// Next returns the first time after t.
func (c Cron) Next(t time.Time) time.Time { return c.schedule.Next(t) }
