package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestText(t *testing.T) {
	found := []finding{
		{Name: "go", State: isOK, Message: "1.26.0, /usr/bin/go"},
		{Name: "rights", State: isNotChecked, Message: "no cluster\nis reached"},
		{Name: "rights", State: isWarning, Message: "not enough for setpoint run in setpoint-system; you may not create pods.v1 in setpoint-system; get nodes.v1"},
		{Name: "leftovers", State: isWarning, Message: "killed sessions left something", Fix: `rm -r "/tmp/setpoint-inspect-1"`},
	}
	const plain = `ok           go: 1.26.0, /usr/bin/go
not checked  rights: no cluster\nis reached
warning      rights: not enough for setpoint run in setpoint-system;
               you may not create pods.v1 in setpoint-system;
               get nodes.v1
warning      leftovers: killed sessions left something
             → rm -r "/tmp/setpoint-inspect-1"
`
	if got := text(found, false); got != plain {
		t.Errorf("got:\n%s", got)
	}
	if got := text(found[:1], true); got != "\x1b[32mok\x1b[0m           go: 1.26.0, /usr/bin/go\n" {
		t.Errorf("in colour: %q", got)
	}
}

// A check that ignores the end of the context holds no other one up.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		got := runAll(ctx, []check{
			{"slow", func(context.Context) finding { <-time.After(time.Hour); return isOK.because("late") }},
			{"quick", func(context.Context) finding { return isFailed.because("broken") }},
		})
		want := []finding{{"slow", isNotChecked, "it took longer than 15s", ""}, {"quick", isFailed, "broken", ""}}
		if !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
		<-time.After(2 * time.Hour) // The slow one ends; the time is not a real one.
	})
}

func TestTools(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{"go": "echo go version go1.26.2 linux/amd64", "node": "echo v20.1.0", "broken": "exit 1"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	t.Setenv("PATH", dir)
	for name, c := range map[string]struct {
		tool tool
		want state
		says string
	}{
		"recent":     {golang, isOK, "1.26.2, " + filepath.Join(dir, "go")},
		"old":        {node, isWarning, "is version 20.1.0; webhooks in TypeScript need 22.6 or newer"},
		"any":        {tool{program: "broken"}, isOK, filepath.Join(dir, "broken")},
		"no version": {tool{program: "broken", oldest: "1.0", needs: "some"}, isWarning, "is version unknown; some need 1.0 or newer"},
		"missing":    {tool{program: "missing", needs: "some"}, isWarning, "missing is not found; some need it"},
	} {
		if got := c.tool.check(t.Context()); got.State != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestClock(t *testing.T) {
	received := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		date time.Time
		want state
		says string
	}{
		"equal":          {received, isOK, "within 10s"},
		"ahead":          {received.Add(time.Minute), isWarning, "is 1m0s ahead"},
		"behind":         {received.Add(-time.Hour), isWarning, "is 1h0m0s behind"},
		"without a date": {time.Time{}, isNotChecked, "no date"},
	} {
		if got := judgeClock(c.date, received); got.State != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWebhooks(t *testing.T) {
	reachable, unknown := register.Health{Reachability: register.Reachable}, register.Health{Problem: "it has no probe"}
	down := register.Health{Reachability: register.Unreachable, ReachabilityMessage: "EOF"}
	for name, c := range map[string]struct {
		all  map[string]register.Health
		want state
		says string
	}{
		"none":        {nil, isOK, "none"},
		"reached":     {map[string]register.Health{"b": reachable, "a": reachable, "c": unknown}, isOK, "reaches a; b"},
		"not reached": {map[string]register.Health{"a": reachable, "b": down}, isFailed, "does not reach b: EOF"},
		"not probed":  {map[string]register.Health{"a": unknown}, isNotChecked, "a: it has no probe"},
	} {
		if got := judgeWebhooks(c.all); got.State != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAdvice(t *testing.T) {
	for want, err := range map[string]error{
		"sign in again":     apierrors.NewUnauthorized("no"),
		"check the clock":   &url.Error{Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}},
		"check the address": fmt.Errorf("get: %w", &net.DNSError{}),
		"start the cluster": &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"the VPN and":       &url.Error{Err: context.DeadlineExceeded},
		"compare with":      errors.New("odd"),
	} {
		if got := advice(err); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
	leaky := &url.Error{Op: "Get", URL: "https://user:hunter2@example.com/version", Err: errors.New("EOF")}
	if got := cause(leaky); got != "EOF" {
		t.Errorf("the cause has the address: %s", got)
	}
}
