package dev

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestRecentOutput(t *testing.T) {
	for _, c := range []struct {
		logs              string
		hidden            bool
		printed, afterEnd int
	}{{"", false, 30, 30}, {"", true, 0, tailLines}, {t.TempDir(), false, 0, tailLines}} {
		var out bytes.Buffer
		reporter := progress.New(progress.Options{Out: &out})
		r := must.Get(newRecentOutput(reporter, c.logs, "a")).In(t)
		reporter.HooksHidden.Store(c.hidden)
		for i := range 29 {
			fmt.Fprintln(r, i)
		}
		fmt.Fprint(r, "unfin")
		fmt.Fprint(r, "ished")
		r.Flush()
		printed := strings.Count(out.String(), "\n")
		r.showTail()
		r.showTail()
		r.close()
		shown := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if printed != c.printed || len(shown) != c.afterEnd || shown[len(shown)-1] != "a | unfinished" || shown[len(shown)-2] != "a | 28" {
			t.Errorf("with logs in %q: %d lines at first, then %q", c.logs, printed, shown)
		}
		if c.logs != "" && len(must.Get(os.ReadFile(filepath.Join(c.logs, "a.log"))).In(t)) != 2*29+19+len("unfinished") {
			t.Error("the log is not complete")
		}
	}
}

// What was hidden is not shown after what came later.
func TestHiddenLinesGrowOld(t *testing.T) {
	var out bytes.Buffer
	reporter := progress.New(progress.Options{Out: &out})
	r := must.Get(newRecentOutput(reporter, "", "a")).In(t)
	for i := range 3 {
		reporter.HooksHidden.Store(i == 0)
		fmt.Fprintln(r, i)
	}
	r.showTail()
	if got := out.String(); got != "a | 1\na | 2\n" {
		t.Errorf("got %q", got)
	}
}
