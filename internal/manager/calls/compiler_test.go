package calls

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// slowCompiler compiles for as long as the text of a script says.
type slowCompiler struct{ started, open atomic.Int32 }

func (c *slowCompiler) compile(ctx context.Context, script call.Script) (call.Program, error) {
	c.started.Add(1)
	took, err := time.ParseDuration(script.Sources["sync.js"])
	if err != nil {
		return nil, &call.SourceError{File: "sync.js", Line: 1, Message: "not a duration"}
	}
	select {
	case <-time.After(took):
		c.open.Add(1)
		return slowProgram{c}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type slowProgram struct{ of *slowCompiler }

func (slowProgram) Functions() []string                           { return nil }
func (slowProgram) Function(string, time.Duration) call.Transport { return nil }
func (p slowProgram) Close()                                      { p.of.open.Add(-1) }

// Code that loads slowly delays its own controller only, and code that does not compile is compiled once.
func TestInlineCompiler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, notified := &slowCompiler{}, atomic.Int32{}
		c := NewCompiler(engine.compile, func(string) { notified.Add(1) })
		compile := func(text string) (call.Program, error) {
			return c.Compile(t.Context(), call.Script{Controller: "a", Sources: map[string]string{"sync.js": text}})
		}
		fast := must.Get(compile("1s")).In(t)
		fast.Close()

		start := time.Now()
		for range 2 {
			if _, err := compile("10s"); !errors.Is(err, ErrCompiling) {
				t.Errorf("slow: %v", err)
			}
		}
		if took := time.Since(start); took != compilePatience || notified.Load() != 0 {
			t.Errorf("waited %v, notified %d times", took, notified.Load())
		}
		<-time.After(10 * time.Second)
		slow, err := compile("10s")
		if err != nil || notified.Load() != 1 {
			t.Fatalf("after it has loaded: %v, notified %d times", err, notified.Load())
		}
		slow.Close()

		engine.started.Store(0)
		for range 3 {
			if _, err := compile("soon"); fmt.Sprint(err) != "sync.js:1: not a duration" {
				t.Errorf("does not compile: %v", err)
			}
		}
		if n := engine.started.Load(); n != 1 {
			t.Errorf("compiled %d times", n)
		}
	})
}

// Programs that no controller uses are closed, and those of a removed controller are not awaited.
func TestInlineCompilerUnclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &slowCompiler{}
		c := NewCompiler(engine.compile, func(string) {})
		compile := func(text string) {
			_, err := c.Compile(t.Context(), call.Script{Controller: "a", Sources: map[string]string{"sync.js": text}})
			if !errors.Is(err, ErrCompiling) {
				t.Error(err)
			}
		}
		compile("3s")
		<-time.After(2 * time.Second)
		if n := engine.open.Load(); n != 1 {
			t.Errorf("%d programs are open", n)
		}
		<-time.After(unclaimedTimeout)
		if n := engine.open.Load(); n != 0 {
			t.Errorf("%d programs are open after a while", n)
		}
		compile("1h")
		c.Drop("a")
		synctest.Wait() // The test fails if a goroutine remains.
	})
}
