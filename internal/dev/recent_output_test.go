package dev

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestRecentOutput(t *testing.T) {
	var shown []string
	r := must.Get(newRecentOutput(progress.NewWriter(func(text []byte) { shown = append(shown, string(text)) }), "", "")).In(t)
	fmt.Fprint(r, "\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain\x1b]8;;http://a\x1b\\link\npart")
	fmt.Fprint(r, "s\nunfinished")
	r.Flush()
	var got []string
	for _, line := range r.list() {
		got = append(got, line.Text)
		if line.At.IsZero() {
			t.Errorf("%q has no time", line.Text)
		}
	}
	if text := strings.Join(got, "|"); text != "red and plainlink|parts|unfinished" {
		t.Errorf("kept %q", text)
	}
	if len(shown) != 3 || !strings.HasPrefix(shown[0], "\x1b[1;31mred") {
		t.Errorf("shown %q", shown)
	}
}

func TestRecentOutputIsLimited(t *testing.T) {
	for _, c := range []struct{ lines, length, want, longest int }{
		{2000, 10, maxRecentLines, 10},
		{2000, 1000, maxRecentBytes / 1000, 1000},
		{3, 60 << 10, 3, maxRecentLine + len("…")},
	} {
		r := must.Get(newRecentOutput(progress.NewWriter(func([]byte) {}), "", "")).In(t)
		for range c.lines {
			fmt.Fprintln(r, strings.Repeat("x", c.length))
		}
		all := r.list()
		if len(all) != c.want || len(all[0].Text) != c.longest {
			t.Errorf("%d lines of %d bytes: kept %d of %d", c.lines, c.length, len(all), len(all[0].Text))
		}
	}
}
