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

// recorder is a fake test that may fail; it records its messages.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	output   bytes.Buffer
	failed   bool
	cleanups []func()
}

// mustFail runs a test that is to fail, cleanups and all, and returns what it said.
func mustFail(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	said, failed := runRecorded(t, test)
	if !failed {
		t.Errorf("the test did not fail; it said\n%s", said)
	}
	return said
}

// mustPass is failing for a test that is to pass.
func mustPass(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	said, failed := runRecorded(t, test)
	if failed {
		t.Errorf("the test failed; it said\n%s", said)
	}
	return said
}

func runRecorded(t *testing.T, test func(t testing.TB)) (said string, failed bool) {
	t.Helper()
	r := &recorder{TB: t}
	r.isolate(func() { test(r) })
	for _, do := range slices.Backward(r.cleanups) {
		r.isolate(do)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output.String(), r.failed
}

// isolate runs something that may end its goroutine.
func (r *recorder) isolate(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

func (r *recorder) write(text string, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output.WriteString(text + "\n")
	r.failed = r.failed || fails
}

func (r *recorder) Cleanup(do func())              { r.cleanups = append(r.cleanups, do) }
func (r *recorder) Context() context.Context       { return r.TB.Context() }
func (r *recorder) Logf(format string, a ...any)   { r.write(fmt.Sprintf(format, a...), false) }
func (r *recorder) Errorf(format string, a ...any) { r.write(fmt.Sprintf(format, a...), true) }
func (r *recorder) Output() io.Writer              { return writer{r} }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Fatal(a ...any) {
	r.write(fmt.Sprint(a...), true)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, a ...any) { r.Fatal(fmt.Sprintf(format, a...)) }

type writer struct{ *recorder }

func (w writer) Write(p []byte) (int, error) {
	w.write(strings.TrimSuffix(string(p), "\n"), false)
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
