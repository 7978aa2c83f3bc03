package child

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFirstLineThenLog(t *testing.T) {
	dir := t.TempDir()
	process := must.Get(Start(dir, "talker", "/bin/sh", "-c", "echo woe >&2; echo here I am; echo more")).In(t)
	line, err := process.FirstLine(t.Context())
	if err != nil || line != "here I am\n" {
		t.Errorf("got %q, %v", line, err)
	}
	<-process.exited
	log := must.Get(os.ReadFile(filepath.Join(dir, "talker.log"))).In(t)
	for _, want := range []string{"here I am\n", "more\n", "woe\n"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("%q is not in the log:\n%s", want, log)
		}
	}
}

func TestEndingEarlyShowsTheLog(t *testing.T) {
	process := must.Get(Start(t.TempDir(), "quitter", "/bin/sh", "-c", "echo no such thing >&2; exit 3")).In(t)
	_, err := process.FirstLine(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	if err := process.Stop(); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
}

func TestNoSuchProgram(t *testing.T) {
	if _, err := Start(t.TempDir(), "nobody", "/nonexistent"); err == nil {
		t.Error("no error")
	}
}

func TestKill(t *testing.T) {
	process := must.Get(Start(t.TempDir(), "stubborn", "/bin/sh", "-c", "trap '' TERM; echo here; while :; do sleep 1; done")).In(t)
	must.Get(process.FirstLine(t.Context())).In(t)
	process.Kill()
	if err := process.Err(); err == nil {
		t.Error("it goes on")
	}
}
