package dev

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// What killed sessions left is found, and goes a day later; what is in use, kept by a user, or starting stays.
func TestLeftovers(t *testing.T) {
	temporary, cache, now := t.TempDir(), t.TempDir(), time.Now()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache) // Where macOS has the cache.
	write := func(path, text string) *os.File {
		t.Helper()
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		return must.Get(os.Open(path)).In(t)
	}
	lock := func(file *os.File) { must.Succeed(t, locate.Lock(file)); t.Cleanup(func() { _ = file.Close() }) }
	inTemporary := func(path string) string { return filepath.Join(temporary, path) }
	sessions := filepath.Dir(must.Get(locate.ClusterFolder("https://127.0.0.1:1")).In(t))
	write(inTemporary("setpoint-inspect-1/hooks-1"), "")
	lock(write(inTemporary("setpoint-inspect-2/hooks-1"), ""))
	write(inTemporary("setpoint-inspect-3/.hooks-1"), "")
	write(inTemporary("setpoint-inspect-notes/a"), "")
	write(inTemporary("setpoint-operator-1/lock"), "")
	write(inTemporary("setpoint-cluster-1/cluster.json"), "{\n  \"layout\": 1,\n  \"temporary\": true\n}")
	write(inTemporary("setpoint-cluster-2/cluster.json"), "{\n  \"layout\": 1\n}")
	write(inTemporary("setpoint-cluster-3/a"), "")
	write(inTemporary("setpoint-cluster-4/holder"), "{}")
	killed, used := filepath.Join(sessions, "0a", "team.kubeconfig"), filepath.Join(sessions, "0a", "team-2.kubeconfig")
	write(killed, "a")
	write(filepath.Join(sessions, "0a", "team-3.kubeconfig"), "")
	lock(write(used, ""))
	left := []string{inTemporary("setpoint-inspect-1"), inTemporary("setpoint-operator-1"), inTemporary("setpoint-cluster-1"), inTemporary("setpoint-cluster-4"), killed}
	for age, want := range map[time.Duration][]string{-time.Hour: nil, time.Second: left} {
		if found := Leftovers(now.Add(age)); !slices.Equal(found, want) {
			t.Errorf("older than in %s: found %q, want %q", age, found, want)
		}
	}
	startAfter := func(age time.Duration) []string {
		removeOld(slog.New(slog.DiscardHandler), now.Add(age))
		return Leftovers(now.Add(time.Hour))
	}
	if found := startAfter(leftoverAge - time.Hour); !slices.Equal(found, left) {
		t.Errorf("a session within a day leaves %q, want %q", found, left)
	}
	if found := startAfter(leftoverAge + time.Hour); len(found) != 0 {
		t.Errorf("a session after a day leaves %q", found)
	}
	for _, kept := range []string{used, inTemporary("setpoint-inspect-2"), inTemporary("setpoint-inspect-3"), inTemporary("setpoint-inspect-notes"), inTemporary("setpoint-cluster-2"), inTemporary("setpoint-cluster-3")} {
		must.Get(os.Stat(kept)).In(t)
	}
}
