package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestRecentOutput(t *testing.T) {
	for _, c := range []struct {
		logs              string
		printed, afterEnd int
	}{{"", 30, 30}, {t.TempDir(), 0, tailLines}} {
		var shown []string
		r := must.Get(newRecentOutput(progress.NewWriter(func(text []byte) { shown = append(shown, string(text)) }), c.logs, "a")).In(t)
		for i := range 29 {
			fmt.Fprintln(r, i)
		}
		fmt.Fprint(r, "unfin")
		fmt.Fprint(r, "ished")
		r.Flush()
		printed := len(shown)
		r.showTail()
		r.showTail()
		r.close()
		if printed != c.printed || len(shown) != c.afterEnd || shown[len(shown)-1] != "unfinished" || shown[len(shown)-2] != strconv.Itoa(28) {
			t.Errorf("with logs in %q: %d lines at first, then %q", c.logs, printed, shown)
		}
		if c.logs != "" && len(must.Get(os.ReadFile(filepath.Join(c.logs, "a.log"))).In(t)) != 2*29+19+len("unfinished") {
			t.Error("the log is not complete")
		}
	}
}
