package schedule

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"strings"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for _, c := range []struct{ expression, after, want string }{
		{"30 4 * * *", "2026-03-01T04:30:00Z", "2026-03-02T04:30:00Z"},
		{"30 4 * * *", "2026-03-01T04:29:59Z", "2026-03-01T04:30:00Z"},
		{"*/20 * * * *", "2026-03-01T04:30:00Z", "2026-03-01T04:40:00Z"},
		{"0 9 * * mon-fri", "2026-03-06T12:00:00Z", "2026-03-09T09:00:00Z"},
		{"0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"@hourly", "2026-03-01T04:30:00Z", "2026-03-01T05:00:00Z"},
		{" @daily ", "2026-03-01T04:30:00Z", "2026-03-02T00:00:00Z"},
		{"TZ=Europe/Berlin 0 6 * * *", "2026-07-01T00:00:00Z", "2026-07-01T04:00:00Z"},
		{"CRON_TZ=Asia/Tokyo  @daily", "2026-07-01T00:00:00Z", "2026-07-01T15:00:00Z"},

		// On 29 March 2026 clocks in Berlin skip the hour from two to three; that is at one in UTC.
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"TZ=Europe/Berlin 0,20 2,3 * * *", "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z"},
		{"TZ=Europe/Berlin 0,20 2,3 * * *", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"},
		{"TZ=Europe/Berlin 30 4 * * *", "2026-03-29T00:59:00Z", "2026-03-29T02:30:00Z"},
		{"TZ=Europe/Berlin 30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		{"TZ=Europe/Berlin */20 2 * * *", "2026-03-29T00:30:00Z", "2026-03-30T00:00:00Z"},
		{"TZ=Europe/Berlin @hourly", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"},
		// On 25 October they show it twice.
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:15:00Z", "2026-10-26T01:30:00Z"},
		{"TZ=Europe/Berlin 0 3 * * *", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"},
		{"TZ=Europe/Berlin 30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"TZ=Europe/Berlin @hourly", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		// Here midnight does not exist once a year, and in Apia a whole day did not.
		{"TZ=America/Santiago 0 0 * * *", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"},
		{"TZ=Africa/Cairo @daily", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"},
		{"TZ=Pacific/Apia 0 12 30 * *", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"},
		{"TZ=Pacific/Apia * 12 30 12 *", "2011-12-01T00:00:00Z", "2012-12-29T22:00:00Z"},
	} {
		cron, err := Parse(c.expression)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		after := must.Get(time.Parse(time.RFC3339, c.after)).In(t)
		if got := cron.Next(after).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s after %s: got %s, want %s", c.expression, c.after, got, c.want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"", "is empty"},
		{"TZ=UTC", "is empty"},
		{"* * * *", "expected exactly 5 fields"},
		{"0 0 * * * *", "expected exactly 5 fields"},
		{"61 * * * *", "above maximum"},
		{"0 0 30 2 *", "it never matches"},
		{"TZ=Moon/Tycho 0 0 * * *", "Moon/Tycho"},
		{"@every 1h", "is an interval"},
		{"@sometimes", "unrecognized"},
	} {
		_, err := Parse(c.expression)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error about %q", c.expression, err, c.want)
		}
	}
}
