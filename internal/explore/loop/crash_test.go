package loop_test

import (
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
)

// rollout creates the pods, edits the image half-way, and returns the world at rest.
func rollout(t *testing.T, prepare func(*world)) *world {
	t.Helper()
	w := newRollingSet(t, loop.Options{Memo: rollouts})
	prepare(w)
	w.settle()
	w.setImage("b")
	w.settle()
	return w
}

// rollouts remembers the responses for all worlds of the tests.
var rollouts = loop.NewMemo()

// atRest is what is stored in the end, whatever the way.
func atRest(w *world) string {
	w.t.Helper()
	return images(w) + " " + w.objects(rollingSets, "status", "readyReplicas")
}

const rolledOut = "web-0=b web-1=b web-2=b web=3"

func TestSameSteps(t *testing.T) {
	first, second := rollout(t, func(*world) {}), rollout(t, func(*world) {})
	if !slices.Equal(first.trace, second.trace) {
		t.Errorf("first:\n%s\nsecond:\n%s", strings.Join(first.trace, "\n"), strings.Join(second.trace, "\n"))
	}
	if got := atRest(first); got != rolledOut {
		t.Error(got)
	}
}

// TestCrashes ends the process after each of its writes, once with a list that is new and once with an old one.
func TestCrashes(t *testing.T) {
	writes := len(rollout(t, func(*world) {}).trace)
	for n := range writes {
		for _, stale := range []bool{false, true} {
			w := rollout(t, func(w *world) { w.crashAfter, w.stale = n+1, stale })
			if got := atRest(w); got != rolledOut {
				t.Errorf("a crash after write %d, stale %v: %s\n%s", n+1, stale, got, strings.Join(w.trace, "\n"))
			}
		}
	}
}

// TestFaults replaces the response to each request once by a conflict, and by errors after which the write has landed.
func TestFaults(t *testing.T) {
	requests := len(rollout(t, func(*world) {}).trace)
	status := func(code int, reason string) loop.Response {
		return loop.Response{Code: code, Body: []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","message":"injected","code":` + strconv.Itoa(code) + `}`)}
	}
	for _, fault := range []struct {
		name     string
		response loop.Response
		landed   bool
	}{
		{"conflict", status(http.StatusConflict, "Conflict"), false},
		{"error", status(http.StatusInternalServerError, "InternalError"), true},
		{"lost response", loop.Response{Err: errors.New("connection reset")}, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			for n := range requests {
				left := n + 1
				w := rollout(t, func(w *world) {
					w.respond = func(*loop.Request) (loop.Response, bool, bool) {
						left--
						return fault.response, left != 0 || fault.landed, left == 0
					}
				})
				if got := atRest(w); got != rolledOut {
					t.Errorf("at request %d: %s\n%s", n+1, got, strings.Join(w.trace, "\n"))
				}
			}
		})
	}
}

func TestStopsWithoutGoroutines(t *testing.T) {
	w := newRollingSet(t, loop.Options{Memo: rollouts})
	before := runtime.NumGoroutine()
	for range 50 {
		step := w.process.Step(t.Context(), loop.Run{Item: w.items[0], View: w.view})
		if step.Request == nil || step.End != nil {
			t.Fatalf("it ended: %+v", step)
		}
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines, before %d", after, before)
	}
}
