package progress_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// pass advances the clock of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestPlainLinesAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := progress.New(progress.Options{Out: &out})
		first, second := r.Phase("etcd"), r.Phase("kube-apiserver")
		pass(250 * time.Millisecond)
		first.End(nil, "")
		first.End(nil, "twice is once")
		pass(2650 * time.Millisecond)
		second.End(errors.New("x"), "")
		r.Phase("apply").End(nil, "5 objects")
		r.Event(70*time.Second, "%s changed", "a.yaml")
		r.Problem(errors.New("one\ntwo"))
		r.Close()
		want := `✓ etcd                                      250ms
✗ kube-apiserver                             2.9s
✓ apply                                       0ms  5 objects
✓ a.yaml changed (1m10s)
✗ one
  two
`
		if got := out.String(); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

// screen plays a terminal: it knows the two codes that moving lines need.
type screen struct{ lines []string }

func (s *screen) Write(data []byte) (int, error) {
	text := string(data)
	for text != "" {
		var up int
		if n, _ := fmt.Sscanf(text, "\x1b[%dA\r\x1b[J", &up); n == 1 {
			s.lines = s.lines[:len(s.lines)-up]
			_, text, _ = strings.Cut(text, "\x1b[J")
			continue
		}
		line, rest, _ := strings.Cut(text, "\n")
		s.lines, text = append(s.lines, line), rest
	}
	return len(data), nil
}

func TestMovingLinesStayAtTheBottom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		r := progress.New(progress.Options{Out: &out, Live: true, Width: 20})
		etcd, api := r.Phase("etcd"), r.Phase("kube-apiserver")
		r.Line("hello")
		pass(350 * time.Millisecond)
		synctest.Wait()
		r.Line("there")
		if got := strings.Join(out.lines, "\n"); got != "hello\nthere\n⠸ etcd             \n⠸ kube-apiserver   " {
			t.Errorf("under way:\n%s", got)
		}
		etcd.End(nil, "")
		api.End(nil, "")
		if len(out.lines) != 4 || !strings.HasPrefix(out.lines[3], "✓ kube-apiserver") {
			t.Errorf("at the end: %q", out.lines)
		}
	})
}

func TestUpdatesAreOnTheLiveLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal screen
		r := progress.New(progress.Options{Out: &terminal, Live: true, Width: 60})
		r.Phase("explore rollout").Update("12000 states, 6000 per second")
		pass(950 * time.Millisecond)
		synctest.Wait()
		if got := strings.Join(terminal.lines, "\n"); !strings.HasSuffix(got, " 900ms  12000 st") {
			t.Errorf("got %q", got)
		}
		r.Close()
		if len(terminal.lines) > 0 {
			t.Errorf("after the end: %q", terminal.lines)
		}
	})
}

func TestColorsAreOptional(t *testing.T) {
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		r := progress.New(progress.Options{Out: &out, Color: color})
		fmt.Fprintln(r.Writer("hook"), "text")
		r.Phase("etcd").End(nil, "")
		if got := strings.Contains(out.String(), "\x1b["); got != color {
			t.Errorf("color %t: %q", color, out.String())
		}
	}
}

func TestWritersKeepLinesWhole(t *testing.T) {
	var out bytes.Buffer
	r := progress.New(progress.Options{Out: &out})
	a, b := r.Writer("a"), r.Writer("b")
	for _, piece := range []string{"on", "e\r\ntw", "o\n\nthr"} {
		fmt.Fprint(a, piece)
		fmt.Fprintln(b, "between")
	}
	a.Flush()
	a.Flush()
	want := "b | between\na | one\nb | between\na | two\na |\nb | between\na | thr\n"
	if got := strings.ReplaceAll(out.String(), "| \n", "|\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLongLinesAreBroken(t *testing.T) {
	var out bytes.Buffer
	w := progress.New(progress.Options{Out: &out}).Writer("a")
	fmt.Fprint(w, strings.Repeat("x", 100<<10))
	if got := strings.Count(out.String(), "\n"); got != 1 {
		t.Errorf("%d lines of 100 KiB without an end", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	var out bytes.Buffer
	r := progress.New(progress.Options{Out: &out, Live: true})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			phase := r.Phase(fmt.Sprint(i))
			fmt.Fprintln(r.Writer("w"), "line")
			phase.End(nil, "")
		})
	}
	all.Wait()
	r.Close()
}

// Nothing is written while another program has the terminal, and nothing is lost.
func TestPause(t *testing.T) {
	var out bytes.Buffer
	r := progress.New(progress.Options{Out: &out})
	hook := r.HookWriter("hook")
	fmt.Fprintln(hook, "one")
	r.Pause()
	r.Phase("etcd").End(nil, "")
	fmt.Fprintln(hook, "two")
	if got := out.String(); got != "hook | one\n" {
		t.Errorf("while it is paused: %q", got)
	}
	r.Resume()
	r.HooksHidden.Store(true)
	fmt.Fprintln(hook, "three")
	r.Line("last")
	if got := out.String(); !strings.HasPrefix(got, "hook | one\n✓ etcd ") || !strings.HasSuffix(got, "\nhook | two\nlast\n") {
		t.Errorf("got %q", got)
	}
	out.Reset()
	r.Pause()
	for i := range 10_002 {
		r.Line("%d", i)
	}
	r.Resume()
	if got := out.String(); !strings.HasPrefix(got, "2\n3\n") || strings.Count(got, "\n") != 10_000 {
		t.Errorf("got %d lines, first %.40q", strings.Count(got, "\n"), got)
	}
}
