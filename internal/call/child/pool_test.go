package child_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// long is a time limit that no test reaches.
const long = time.Minute

// do makes a call and returns the fields of the response: its number in that child, the process ID
// and the length of the argument.
func do(ctx context.Context, p *child.Pool, line string) (fields [3]int, err error) {
	return doWithin(ctx, p, line, child.Call{Timeout: long, MaxBytes: 32 << 20})
}

func doWithin(ctx context.Context, p *child.Pool, line string, limits child.Call) (fields [3]int, err error) {
	err = p.Do(ctx, limits, func(c *child.Conn) error {
		response, err := c.RoundTrip([]byte(line))
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(string(response), &fields[0], &fields[1], &fields[2]); err != nil && len(response) < 100 {
			return err
		}
		return nil
	})
	return fields, err
}

func mustDo(t *testing.T, p *child.Pool, line string) [3]int {
	t.Helper()
	return must.Get(do(t.Context(), p, line)).In(t)
}

func TestOneChildMakesManyCalls(t *testing.T) {
	p := newPool(t, nil)
	first := mustDo(t, p, "hello")
	large := mustDo(t, p, "hello "+strings.Repeat("x", 1<<20))
	if first[0] != 1 || large[0] != 2 || first[1] != large[1] || large[2] != 1<<20 {
		t.Errorf("%v, then %v", first, large)
	}
	if third := mustDo(t, p, "echo "+strings.Repeat("x", 1<<20)+"\nand a second line"); third[0] != 0 {
		t.Errorf("%v", third)
	}
}

// Short calls wait for each other. Only a long one makes others start a second child.
func TestStartAfter(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // A pool has as many children as there are cores.
	p := newPool(t, func(c *child.Config) { c.StartAfter = long })
	first := mustDo(t, p, "hello")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			for range 5 {
				if fields, err := do(t.Context(), p, "hello"); err != nil || fields[1] != first[1] {
					t.Errorf("%v, %v after %v", fields, err, first)
				}
			}
		})
	}
	calls.Wait()
	if last := mustDo(t, p, "hello"); last[0] != 102 {
		t.Errorf("%v", last)
	}
	hasTwo := newPool(t, func(c *child.Config) { c.StartAfter = time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	hanging := make(chan string)
	calls.Go(func() {
		_ = hasTwo.Do(ctx, child.Call{Timeout: long, MaxBytes: 1 << 10}, func(c *child.Conn) error {
			response, _ := c.RoundTrip([]byte("hello"))
			hanging <- strings.Fields(string(response))[1]
			_, err := c.RoundTrip([]byte("hang"))
			return err
		})
	})
	one := <-hanging
	if other := mustDo(t, hasTwo, "hello"); strconv.Itoa(other[1]) == one {
		t.Errorf("the child %s answers while it hangs", one)
	}
	cancel()
	calls.Wait()
}

// A call that waits for a child starts its own as soon as that one ends.
func TestChildEndsWhileAnotherCallWaits(t *testing.T) {
	p := newPool(t, func(c *child.Config) { c.StartAfter = long })
	mustDo(t, p, "hello")
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = do(ctx, p, "hang") })
	calls.Go(func() { mustDo(t, p, "hello") })
	time.AfterFunc(50*time.Millisecond, cancel)
	calls.Wait()
	cancel()
}

// What a child writes to its standard error before it responds is of that call, and there when the call ends.
func TestLinesAreOfTheirCall(t *testing.T) {
	p := newPool(t, nil)
	for i := range 10 { // More at once are too much.
		var printed []string
		limits := child.Call{Timeout: long, MaxBytes: 1 << 10, Print: func(line string) { printed = append(printed, line) }}
		if _, err := doWithin(t.Context(), p, fmt.Sprintf("log %d", i), limits); err != nil || len(printed) != 2 || printed[0] != strconv.Itoa(i) {
			t.Fatalf("call %d has %d lines, %.50q, %v", i, len(printed), printed, err)
		}
	}
}

// What happens to a child is the error of one call. The next one has another child.
func TestFailedCalls(t *testing.T) {
	p := newPool(t, nil)
	for _, c := range []struct {
		line    string
		timeout time.Duration
		want    string
	}{
		{"exit", long, "exited with code 3: about to exit; no end of line"},
		{"die", long, "killed by signal 9 (killed)"},
		{"hang", 100 * time.Millisecond, "did not return within 100ms"},
		{"flood", long, "wrote too many bytes"},
		{"twice", long, "expected integer"},
	} {
		before := mustDo(t, p, "hello")
		_, err := doWithin(t.Context(), p, c.line, child.Call{Timeout: c.timeout, MaxBytes: 8 << 20})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.line, err)
		}
		if after := mustDo(t, p, "hello"); after[0] != 1 || after[1] == before[1] {
			t.Errorf("after %s the child has made %d calls", c.line, after[0])
		}
		awaitGone(t, before[1])
	}
}

// A line that comes too late must not be the response to the next call.
func TestLateLines(t *testing.T) {
	p := newPool(t, nil)
	pid := mustDo(t, p, "hello")[1]
	_, _ = do(t.Context(), p, "late")
	must.Eventually(t, "another child", func() bool { // Each call has its own response until the late line is there.
		fields, err := do(t.Context(), p, "hello "+strconv.Itoa(pid))
		if err != nil && !strings.Contains(err.Error(), "more than one line") && !strings.Contains(err.Error(), "expected integer") {
			t.Fatal(err)
		}
		return fields[1] != pid
	})
}

func TestChildThatExitsIdle(t *testing.T) {
	p := newPool(t, nil)
	pid := mustDo(t, p, "hello")[1]
	must.Succeed(t, syscall.Kill(pid, syscall.SIGKILL))
	awaitGone(t, pid)
	if after := mustDo(t, p, "hello"); after[0] != 1 {
		t.Errorf("%v", after)
	}
}

// A process that left the group has the streams open and must not block anything.
func TestDetachedProcess(t *testing.T) {
	p := newPool(t, nil)
	pidFile := filepath.Join(t.TempDir(), "pid")
	_, err := doWithin(t.Context(), p, "fork "+pidFile, child.Call{Timeout: 500 * time.Millisecond, MaxBytes: 1 << 20})
	if !isA[*child.TimeoutError](err) {
		t.Error(err)
	}
	if text, err := os.ReadFile(pidFile); err == nil {
		pid, _ := strconv.Atoi(string(text))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestMissingProgram(t *testing.T) {
	p := newPool(t, func(c *child.Config) { c.Command.Args = []string{"/no/such/program"} })
	_, err := do(t.Context(), p, "hello")
	if !isA[*child.StartError](err) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A program that exits at once is not started all the time.
func TestBackoff(t *testing.T) {
	limiter := child.NewLimiter(0)
	p := newPool(t, func(c *child.Config) {
		c.Limiter = limiter
		c.Command.Args = []string{"/bin/sh", "-c", "echo no such module >&2; exit 1"}
	})
	began := time.Now()
	for limiter.Figures()["test"].Starts < 5 {
		if _, err := do(t.Context(), p, "hello"); fmt.Sprint(err) != "exited with code 1: no such module" {
			t.Fatal(err)
		}
	}
	// Starts at 0, 0, 250, 750, 1750 ms, or later.
	if took := time.Since(began); took < 1750*time.Millisecond {
		t.Errorf("five starts within %s", took)
	}
}

func TestBegin(t *testing.T) {
	fail := true
	p := newPool(t, func(c *child.Config) {
		c.BeginTimeout = long
		c.Begin = func(c *child.Conn) error {
			if fail {
				return errors.New("the source does not compile")
			}
			_, err := c.RoundTrip([]byte("hello"))
			return err
		}
	})
	if _, err := do(t.Context(), p, "hello"); err == nil || err.Error() != "the source does not compile" {
		t.Error(err)
	}
	fail = false
	if second := mustDo(t, p, "hello"); second[0] != 2 {
		t.Errorf("%v", second)
	}
}

func TestLogLines(t *testing.T) {
	var mu sync.Mutex
	var logged []string
	p := newPool(t, func(c *child.Config) {
		c.Log = func(object []byte, line string) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, string(object)+": "+line)
		}
	})
	lines := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(logged)
	}
	call := child.Call{Object: []byte("shop/a"), Timeout: long, MaxBytes: 1 << 20}
	must.Get(doWithin(t.Context(), p, "log hello", call)).In(t)
	must.Eventually(t, "two lines", func() bool { return len(lines()) == 2 })
	if got := lines(); !strings.HasSuffix(got[0], ": hello") || len(got[1]) > 5000 {
		t.Errorf("%.50q", got)
	}
	mustDo(t, p, "spam")
	mustDo(t, p, "spam")
	if n := len(lines()); n > 1000 {
		t.Errorf("%d lines", n)
	}
	// One that never stops has to wait, and the log says so.
	const waits = ": the process has to wait: it writes more than 128 KiB in 100ms to its standard error"
	for call.Timeout = time.Second; !slices.Contains(lines(), waits); call.Timeout *= 4 { // A slow machine may need more.
		if call.Timeout > long {
			t.Fatalf("%d lines, none of which is %s", len(lines()), waits)
		}
		if _, err := doWithin(t.Context(), p, "pour", call); !isA[*child.TimeoutError](err) {
			t.Error(err)
		}
	}
}

// Waiting ends with the context, also while all children are in use.
func TestCallsWait(t *testing.T) {
	p := newPool(t, func(c *child.Config) { c.Limiter = child.NewLimiter(1) })
	var calls sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid := mustDo(t, p, "hello")[1]
	calls.Go(func() {
		if _, err := do(ctx, p, "hang"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	must.Eventually(t, "all are in use", func() bool {
		short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer end()
		_, err := do(short, p, "hello")
		return err != nil && strings.HasPrefix(err.Error(), "all 1 processes that the hook may have are in use: context deadline exceeded")
	})
	cancel()
	calls.Wait()
	awaitGone(t, pid)
	mustDo(t, p, "hello")
}

// The pools of one owner leave room for others, which find it at once, however long its calls take.
func TestOwnersHaveShares(t *testing.T) {
	limiter := child.NewLimiter(6)
	with := func(owner, name string) *child.Pool {
		return newPool(t, func(c *child.Config) { c.Limiter, c.Owner, c.Controller = limiter, owner, name })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	var greedy []*child.Pool
	for i := range 6 {
		p := with("shop/greedy", fmt.Sprint("greedy-", i))
		greedy = append(greedy, p)
		loops.Go(func() { _, _ = do(ctx, p, "hang") })
	}
	running := func(prefix string) (n int) {
		for name, figures := range limiter.Figures() {
			if strings.HasPrefix(name, prefix) {
				n += figures.Processes
			}
		}
		return n
	}
	must.Eventually(t, "three processes", func() bool { return running("greedy-") == 3 })
	mustDo(t, with("shop/a", "a"), "hello")
	mustDo(t, with("shop/b", "b"), "hello")
	if n := running("greedy-"); n != 3 {
		t.Errorf("%d processes of the greedy one", n)
	}
	for _, p := range greedy { // Those that wait say what for.
		short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := do(short, p, "hello"); err != nil && strings.Contains(err.Error(), "processes that hooks of shop/greedy may have are in use") {
			end()
			return
		}
		end()
	}
	t.Error("no error names the share")
}

// Objects whose calls take long leave a process of the hook to the others, also if there are many of them.
func TestSlowObjectsLeaveRoom(t *testing.T) {
	p := newPool(t, func(c *child.Config) { c.Limiter = child.NewLimiter(0) })
	about := func(ctx context.Context, uid, line string, timeout time.Duration) error {
		object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":%q}}`, uid, uid)
		_, err := doWithin(ctx, p, line, child.Call{Object: []byte(object), Timeout: timeout, MaxBytes: 1 << 20})
		return err
	}
	const slow = 16 // More than may wait for each other.
	var first sync.WaitGroup
	for i := range slow { // All are known as slow after this.
		first.Go(func() {
			for !isA[*child.TimeoutError](about(t.Context(), fmt.Sprint("slow-", i), "hang", 1100*time.Millisecond)) {
				if t.Context().Err() != nil {
					return
				}
			}
		})
	}
	first.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	var again sync.WaitGroup
	var refused atomic.Int32
	for i := range slow {
		again.Go(func() {
			if err := about(ctx, fmt.Sprint("slow-", i), "hang", long); err != nil && strings.Contains(err.Error(), "wait for each other") {
				refused.Add(1)
			}
		})
	}
	must.Eventually(t, "a refusal", func() bool { return refused.Load() > 0 }) // They do not hold the workers of the controller either.
	for i := range 10 {
		must.Succeed(t, about(t.Context(), fmt.Sprint("fast-", i), "hello", long))
	}
	cancel()
	again.Wait()
	must.Succeed(t, about(t.Context(), "slow-1", "hello", long)) // It is fast now, so the next call waits for none.
}

// Pools share a limit: idle children make room, and children that make calls take turns.
func TestPoolsShareALimit(t *testing.T) {
	limiter := child.NewLimiter(1)
	with := func(name string) func(*child.Config) {
		return func(c *child.Config) { c.Limiter, c.Controller = limiter, name }
	}
	first, second := newPool(t, with("first")), newPool(t, with("second"))
	for range 2 {
		mustDo(t, first, "hello")
		mustDo(t, second, "hello")
	}
	all := limiter.Figures()
	if all["first"].Starts != 2 || all["second"].Starts != 2 || all["first"].Processes+all["second"].Processes > 1 {
		t.Errorf("%+v", all)
	}
	// One pool that is always busy must not starve the other.
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range 3 {
		busy.Go(func() {
			for ctx.Err() == nil {
				if _, err := do(ctx, first, "hello"); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	mustDo(t, second, "hello")
	cancel()
	busy.Wait()
}

func TestCloseEndsCallsAndChildren(t *testing.T) {
	limiter := child.NewLimiter(0)
	p := newPool(t, func(c *child.Config) { c.Limiter = limiter })
	idle := mustDo(t, p, "hello")[1]
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := do(t.Context(), p, "hang"); err == nil || err.Error() != "the hook is no longer in use" {
			t.Error(err)
		}
	})
	must.Eventually(t, "it hangs", func() bool {
		mustDo(t, p, "hello")
		return limiter.Figures()["test"].Processes == 2
	})
	p.Close()
	calls.Wait()
	awaitGone(t, idle)
	if _, err := do(t.Context(), p, "hello"); err == nil || !strings.Contains(err.Error(), "the hook is no longer in use") {
		t.Error(err)
	}
	p.Close()
}

func TestFigures(t *testing.T) {
	limiter := child.NewLimiter(0)
	p := newPool(t, func(c *child.Config) { c.Limiter = limiter })
	mustDo(t, p, "hello "+strings.Repeat("x", 8<<20))
	got := limiter.Figures()["test"]
	if got.Processes != 1 || got.Starts != 1 || got.MemoryBytes < 8<<20 {
		t.Errorf("%+v", got)
	}
	p.Close()
	again := newPool(t, func(c *child.Config) { c.Limiter = limiter })
	mustDo(t, again, "hello")
	if got := limiter.Figures()["test"]; got.Processes != 1 || got.Starts != 2 || got.CPU == 0 {
		t.Errorf("%+v", got)
	}
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	must.Eventually(t, "the child is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
