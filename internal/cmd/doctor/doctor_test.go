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
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// The report fits in 60 columns, except for words that are longer, and has no colour unless it is wanted.
func TestText(t *testing.T) {
	found := []finding{
		{Name: "go", State: isOK, Message: "1.26.0, /usr/bin/go"},
		{Name: "rights", State: isNotChecked, Message: "no cluster\nis reached"},
		{Name: "leftovers", State: isWarning, Message: "killed sessions of setpoint dev left what setpoint dev removes a day later", Fix: `rm -r "/a/folder/with/a/name/that/is/longer/than/a/line/setpoint-inspect-1"`},
	}
	const narrow = `ok           go: 1.26.0, /usr/bin/go
not checked  rights: no cluster\nis reached
warning      leftovers: killed sessions of setpoint dev left
             what setpoint dev removes a day later
             → rm -r
             "/a/folder/with/a/name/that/is/longer/than/a/line/setpoint-inspect-1"
`
	if got := text(found, 60, false); got != narrow {
		t.Errorf("in 60 columns:\n%s", got)
	}
	if got := text(found, 0, false); strings.Count(got, "\n") != 4 {
		t.Errorf("without a terminal:\n%s", got)
	}
	if got := text(found[:1], 60, true); got != "\x1b[32mok\x1b[0m           go: 1.26.0, /usr/bin/go\n" {
		t.Errorf("in colour: %q", got)
	}
}

func TestTools(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{"go": "echo go version go1.26.2 linux/amd64", "node": "echo v20.1.0", "chromium": "exit 1", "broken": "exit 1"} {
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
		"any":        {browser, isOK, filepath.Join(dir, "chromium")},
		"no version": {tool{programs: []string{"broken"}, oldest: "1.0", needs: "some"}, isWarning, "is version unknown; some need 1.0 or newer"},
		"missing":    {tool{programs: []string{"missing"}, needs: "some"}, isWarning, "not found; some need it"},
	} {
		if got := c.tool.check(t.Context()); got.State != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHolder(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	address := listener.Addr().String()
	if by := holder(t.Context(), address); by == "" {
		t.Error("a port with a listener is free")
	}
	must.Succeed(t, listener.Close())
	if by := holder(t.Context(), address); by != "" {
		t.Errorf("a free port is of %s", by)
	}
	for printed, want := range map[string]string{
		"p12\ncsetpoint\nf7\n": "12setpoint",
		`LISTEN 0 4096 127.0.0.1:7400 0.0.0.0:* users:(("setpoint",pid=12,fd=7))`: "setpoint12",
	} {
		if m := listenerPattern.FindStringSubmatch(printed); m == nil || strings.Join(m[1:], "") != want {
			t.Errorf("%q: %q", printed, m)
		}
	}
}

func TestClock(t *testing.T) {
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(date, taken time.Duration) answer { return answer{sent.Add(date), sent, sent.Add(taken)} }
	for name, c := range map[string]struct {
		answer answer
		want   state
		says   string
	}{
		"equal":           {at(0, 10*time.Millisecond), isOK, "within 5s"},
		"of a slow reply": {at(8*time.Second, 9*time.Second), isOK, "within 14s"},
		"ahead":           {at(time.Minute, 0), isWarning, "is 1m1s ahead"},
		"behind":          {at(-time.Minute, 0), isWarning, "is 1m0s behind"},
		"far behind":      {at(-time.Hour, 0), isFailed, "is 1h0m0s behind"},
		"without a date":  {answer{sent: sent, received: sent}, isNotChecked, "no date"},
	} {
		if got := judgeClock(c.answer); got.State != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestJudgements(t *testing.T) {
	reachable, down := register.Health{Reachability: register.Reachable}, register.Health{Reachability: register.Unreachable, ReachabilityMessage: "EOF"}
	unknown := register.Health{Problem: "it has no probe"}
	many := []string{"get a", "get b", "get c", "get d", "get e"}
	for name, c := range map[string]struct {
		got     finding
		want    state
		says    string
		details int
	}{
		"few files":           {judgeFiles(256), isWarning, "256 at most", 0},
		"many files":          {judgeFiles(4096), isOK, "enough", 0},
		"no leftovers":        {judgeLeftovers(nil), isOK, "none", 0},
		"leftovers":           {judgeLeftovers([]string{"/tmp/a b"}), isWarning, "/tmp/a b", 1},
		"all rights":          {judgeRights(nil, nil, "ops"), isOK, "all for setpoint run in ops", 0},
		"no rights":           {judgeRights(many, []string{"create f"}, "ops"), isWarning, "you may not get a; get b; get c; and 2 more", 5},
		"no right to install": {judgeRights(nil, []string{"create f"}, "ops"), isWarning, "not to install its CRDs; you may not create f", 1},
		"no webhooks":         {judgeWebhooks(nil), isOK, "none", 0},
		"reached":             {judgeWebhooks(map[string]register.Health{"b": reachable, "a": reachable, "c": unknown}), isOK, "reaches a; b", 2},
		"not reached":         {judgeWebhooks(map[string]register.Health{"a": reachable, "b": down}), isFailed, "does not reach b: EOF", 1},
		"not probed":          {judgeWebhooks(map[string]register.Health{"a": unknown}), isNotChecked, "a: it has no probe", 1},
	} {
		if c.got.State != c.want || !strings.Contains(c.got.Message, c.says) || len(c.got.Details) != c.details {
			t.Errorf("%s: %+v", name, c.got)
		}
		if c.want != isOK && c.want != isNotChecked && c.got.Fix == "" {
			t.Errorf("%s: what is to be done?", name)
		}
	}
}

func TestAdvice(t *testing.T) {
	for want, err := range map[string]error{
		"sign in again":                   apierrors.NewUnauthorized("no"),
		"it has no CA":                    &url.Error{Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}},
		"check the address":               fmt.Errorf("get: %w", &net.DNSError{}),
		"start the cluster":               &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"check the network, the VPN, the": &url.Error{Err: context.DeadlineExceeded},
		"compare with":                    errors.New("odd"),
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
