package locate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestFindSession(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir())).In(t)
	home := filepath.Join(root, "home")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	in := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"repo/web/sub", "repo/shop", "repo/none", "home/work"} {
		must.Succeed(t, os.MkdirAll(in(dir), 0o700))
	}
	must.Succeed(t, os.Symlink(in("repo"), in("link")))
	publish := func(pid int, name, started string, folders ...string) func() {
		t.Helper()
		return must.Get(locate.PublishSession(locate.DevSession{PID: pid, Command: "setpoint dev " + name, Started: in(started),
			Folders: folders, Kubeconfig: "/" + name})).In(t)
	}
	publish(1, "web", "repo", in("link/web"))
	leave := publish(2, "shop", "repo", in("repo/shop"))
	publish(3, "tenant.yaml", "home", home)
	expect := func(dir, want string) {
		t.Helper()
		found, err := locate.FindSession(in(dir))
		got := found.Kubeconfig
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("in %s: %s, want %s", dir, got, want)
		}
	}
	none := locate.ErrNoSession.Error()
	for dir, want := range map[string]string{
		"repo/web": "/web", "repo/web/sub": "/web", "link/web/sub": "/web", "repo/shop": "/shop", "repo/none": none, "gone": none,
		"home": "/tenant.yaml", "home/work": none, // Anything may be below a home folder.
		"repo": "2 sessions run in " + in("repo") + ": `setpoint dev web` (process 1, kubeconfig /web) and `setpoint dev shop` " +
			"(process 2, kubeconfig /shop)",
	} {
		expect(dir, want)
	}
	leave()
	expect("repo", "/web")
	expect("repo/shop", none)

	// One that starts has no cluster yet.
	starting := must.Get(locate.PublishSession(locate.DevSession{PID: 9, Command: "setpoint dev shop", Started: in("repo/shop")})).In(t)
	expect("repo/shop", "`setpoint dev shop` in "+in("repo/shop")+" is starting (process 9), and has no cluster yet")
	starting()
	expect("repo/shop", none)

	// Nothing holds the lock of a session that was killed. It is forgotten if it runs again.
	kill := func() {
		text := `{"pid":7,"command":"setpoint dev shop","folders":["` + in("repo/shop") + `"],"kubeconfig":"/old"}`
		must.Succeed(t, os.WriteFile(in("cache/setpoint/sessions/7-a.json"), []byte(text), 0o600))
	}
	kill()
	for range 2 {
		expect("repo/shop", "`setpoint dev shop` in "+in("repo/shop")+" was killed (process 7); start it again, or forget it: rm "+
			in("cache/setpoint/sessions/7-a.json"))
	}
	leave = publish(8, "shop", "repo/shop", in("repo/shop"))
	expect("repo/shop", "/shop")
	leave()
	expect("repo/shop", none)
	left := must.Get(filepath.Glob(in("cache/setpoint/sessions/7-*"))).In(t)
	if len(left) > 0 {
		t.Error("left", strings.Join(left, " "))
	}
}
