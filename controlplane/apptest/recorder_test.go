package apptest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder plays a test that may fail, and keeps what it is told.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	said     bytes.Buffer
	failed   bool
	cleanups []func()
}

// failing runs a test that is to fail, cleanups and all, and returns what it said.
func failing(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	said, failed := played(t, test)
	if !failed {
		t.Errorf("the test did not fail; it said\n%s", said)
	}
	return said
}

// passing is failing for a test that is to pass.
func passing(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	said, failed := played(t, test)
	if failed {
		t.Errorf("the test failed; it said\n%s", said)
	}
	return said
}

func played(t *testing.T, test func(t testing.TB)) (said string, failed bool) {
	t.Helper()
	r := &recorder{TB: t}
	r.alone(func() { test(r) })
	for _, do := range slices.Backward(r.cleanups) {
		r.alone(do)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String(), r.failed
}

// alone runs something that may end its goroutine.
func (r *recorder) alone(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

func (r *recorder) say(text string, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.WriteString(text + "\n")
	r.failed = r.failed || fails
}

func (r *recorder) Cleanup(do func())              { r.cleanups = append(r.cleanups, do) }
func (r *recorder) Context() context.Context       { return r.TB.Context() }
func (r *recorder) Logf(format string, a ...any)   { r.say(fmt.Sprintf(format, a...), false) }
func (r *recorder) Errorf(format string, a ...any) { r.say(fmt.Sprintf(format, a...), true) }
func (r *recorder) Output() io.Writer              { return writer{r} }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Fatal(a ...any) {
	r.say(fmt.Sprint(a...), true)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, a ...any) { r.Fatal(fmt.Sprintf(format, a...)) }

type writer struct{ *recorder }

func (w writer) Write(p []byte) (int, error) {
	w.say(strings.TrimSuffix(string(p), "\n"), false)
	return len(p), nil
}

// expect wants all of these texts to be said.
func expect(t *testing.T, said string, all ...string) {
	t.Helper()
	for _, one := range all {
		if !strings.Contains(said, one) {
			t.Errorf("it was not said that %q, but\n%s", one, said)
		}
	}
}
