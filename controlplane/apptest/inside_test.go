package apptest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// These tests look inside, at what no app does on purpose.

// fakeTB is a test that notes what fails it.
type fakeTB struct {
	testing.TB

	output string
}

func (h *fakeTB) Helper()                             {}
func (h *fakeTB) Errorf(format string, a ...any)      { h.output += fmt.Sprintf(format, a...) }
func (h *fakeTB) Deadline() (last time.Time, ok bool) { return time.Time{}, false }

func newTestRun() (*Cluster, *fakeTB, *appRun) {
	t := &fakeTB{}
	r := &appRun{ready: make(chan struct{}), ended: make(chan struct{}), log: &output{}, cancel: func() {}}
	close(r.ready)
	return &Cluster{shared: &shared{runs: []*appRun{r}}, t: t, waitTimeout: time.Minute}, t, r
}

func TestAppExitFailsTest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("the lease is lost"), "the lease is lost"},
		{nil, "it stopped by itself, without an error"},
	} {
		c, received, r := newTestRun()
		received.TB = t
		c.run(t.Context(), r, func(context.Context) error { return test.err })
		if want := "the app has ended before the test: " + test.want; received.output != want {
			t.Errorf("said %q, not %q", received.output, want)
		}
		// Whatever is waited for then is in vain.
		err := c.poll(func() (bool, error) { return false, errors.New("there is no ConfigMap") })
		if want := "there is no ConfigMap (the app has ended: " + test.want + ")"; err == nil || err.Error() != want {
			t.Errorf("a wait ends with %v, not %q", err, want)
		}
		received.output = ""
		c.Stop()
		if received.output != "" {
			t.Errorf("said again: %q", received.output)
		}
	}
}

func TestAppDoesNotStop(t *testing.T) {
	t.Parallel()
	c, received, r := newTestRun()
	received.TB = t
	forever := make(chan struct{})
	defer close(forever)
	go c.run(t.Context(), r, func(context.Context) error { <-forever; return nil })
	c.stopWithin(r, time.Millisecond)
	for _, want := range []string{"the app has not stopped after 1ms", "ignores that its context is done", "TestAppDoesNotStop"} {
		if !strings.Contains(received.output, want) {
			t.Errorf("not said: %q, but\n%s", want, received.output)
		}
	}
	if n, err := r.log.Write([]byte("late")); n != 4 || err != nil {
		t.Errorf("what it logs later is not ignored: %d, %v", n, err)
	}
}

func TestNamesOfNamespaces(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"TestPublish":                 "testpublish-",
		"TestPublish/what is #2, Ü?":  "testpublish-what-is--2-",
		strings.Repeat("TestLong", 9): "testlongtestlongtestlongtestlongtestlong-",
	} {
		if got := prefix(test); !strings.HasPrefix(got, strings.TrimRight(want, "-")) || len(got) > maxPrefix+1 || !strings.HasSuffix(got, "-") {
			t.Errorf("the name of %s is %q, not %q", test, got, want)
		}
	}
}

func TestProgramsNeedMain(t *testing.T) {
	t.Parallel()
	p := &ControlPlane{Programs: func([]string) (int, bool) { return 0, false }}
	if _, err := p.boot(); err == nil || !strings.Contains(err.Error(), "needs a TestMain that calls its Main") {
		t.Errorf("the error is %v", err)
	}
}

func TestBinaryIsFound(t *testing.T) {
	t.Setenv(kubeconfigVariable, "")
	t.Setenv(binaryVariable, "")
	t.Setenv("PATH", t.TempDir())
	_, err := new(ControlPlane).boot()
	for _, want := range []string{"PATH", "$SETPOINT", "components.Main"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	t.Setenv(binaryVariable, "/named")
	for want, p := range map[string]*ControlPlane{"/named": {}, "/said": {Executable: "/said"}} {
		if got, err := p.executable(); got != want || err != nil {
			t.Errorf("found %q, %v; not %q", got, err, want)
		}
	}
	t.Setenv(kubeconfigVariable, "/theirs")
	if got, err := new(ControlPlane).findKubeconfig(); got != "/theirs" || err != nil {
		t.Errorf("the kubeconfig is %q, %v", got, err)
	}
}

func TestBootFailureIsReported(t *testing.T) {
	t.Parallel()
	p := &ControlPlane{Executable: "/no/such/setpoint"}
	if _, err := p.boot(); err == nil || !strings.Contains(err.Error(), "/no/such/setpoint") {
		t.Errorf("the error is %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("to stop what did not start: %v", err)
	}
}
