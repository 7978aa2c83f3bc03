package locate_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// fakeSource knows only its name.
type fakeSource struct {
	inspect.Source
	name string
}

func (b fakeSource) Name() string { return b.name }

func (fakeSource) Run(context.Context, uint64, bool) (run inspect.Run, _ error) { return run, nil }

func publish(t *testing.T, folder string, e locate.ProcessEntry) (withdraw func()) {
	t.Helper()
	withdraw = must.Get(locate.Publish(folder, e)).In(t)
	return withdraw
}

// write writes an entry without a lock.
func write(t *testing.T, folder, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(folder, name+".json"), []byte(text), 0o600))
}

func names(sources []inspect.Source) string {
	all := lists.Map(sources, inspect.Source.Name)
	return strings.Join(all, " ")
}

func TestFolderSources(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "odd [name]*")
	must.Succeed(t, os.Mkdir(folder, 0o700))
	find := locate.FolderSources(folder)
	if got := find(t.Context()); len(got) != 0 {
		t.Errorf("in an empty folder: %s", names(got))
	}
	gone := exec.CommandContext(t.Context(), "true")
	must.Succeed(t, gone.Run())
	pid := os.Getpid()
	withdraw := publish(t, folder, locate.ProcessEntry{Name: "teams", PID: pid, Address: "127.0.0.1:1"})
	publish(t, folder, locate.ProcessEntry{Name: "setpoint", PID: pid, Address: "[::1]:2"})
	write(t, folder, "old", fmt.Sprintf(`{"name":"older","pid":%d,"address":"127.0.0.1:3"}`, gone.Process.Pid))
	write(t, folder, "none", `{"name":"none","address":"127.0.0.1:3"}`)
	publish(t, folder, locate.ProcessEntry{Name: "abroad", PID: pid, Address: "192.0.2.1:80"})
	publish(t, folder, locate.ProcessEntry{Name: "by name", PID: pid, Address: "example.com:80"})
	write(t, folder, "x", "no JSON")
	first := find(t.Context())
	if names(first) != "setpoint teams" {
		t.Errorf("found %q, want the two that live on this machine, by name", names(first))
	}
	if again := find(t.Context()); again[0] != first[0] || again[1] != first[1] {
		t.Error("other Sources for the same processes")
	}
	withdraw()
	if left := find(t.Context()); names(left) != "setpoint" || left[0] != first[0] {
		t.Errorf("after one left: %q", names(left))
	}
}

// A process that was killed is not listed, also if another process has its PID.
func TestKilledProcess(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "1-2", fmt.Sprintf(`{"name":"guitar","pid":%d,"address":"127.0.0.1:3"}`, os.Getpid()))
	find := locate.FolderSources(folder)
	if found := find(t.Context()); len(found) != 0 {
		t.Errorf("found %q", names(found))
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	publish(t, folder, locate.ProcessEntry{Name: "guitar", PID: os.Getpid(), Address: "127.0.0.1:4"})
	for range 2 {
		if found := find(t.Context()); names(found) != "guitar" {
			t.Errorf("found %q", names(found))
		}
	}
}

func TestEntriesArePrivate(t *testing.T) {
	folder := t.TempDir()
	publish(t, folder, locate.ProcessEntry{Name: "a", PID: 1, Token: "secret"})
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestTokenIsSent(t *testing.T) {
	server := httptest.NewServer(wire.Handler(fakeSource{name: "teams"}, wire.Token("secret")))
	defer server.Close()
	folder := t.TempDir()
	address := server.Listener.Addr().String()
	publish(t, folder, locate.ProcessEntry{Name: "a right one", PID: os.Getpid(), Address: address, Token: "secret"})
	publish(t, folder, locate.ProcessEntry{Name: "a wrong one", PID: os.Getpid(), Address: address, Token: "public"})
	found := locate.FolderSources(folder)(t.Context())
	must.Get(found[0].Run(t.Context(), 0, false)).In(t) // It works with the token.
	if _, err := found[1].Run(t.Context(), 0, false); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("with another token: %v", err)
	}
}

func TestKubeconfigFolder(t *testing.T) {
	config := must.Get(clientcmd.Load([]byte(`
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}, {name: b, cluster: {server: "https://127.0.0.1:2"}}]
contexts: [{name: one, context: {cluster: a}}, {name: two, context: {cluster: gone}}]
current-context: one
`))).In(t)
	if got := locate.KubeconfigFolder(config, ""); got != "" {
		t.Errorf("leads to %q before it was told", got)
	}
	must.Succeed(t, locate.SetKubeconfigFolder(config, "/a folder"))
	text := must.Get(clientcmd.Write(*config)).In(t)
	read := must.Get(clientcmd.Load(text)).In(t)
	for context, want := range map[string]string{"": "/a folder", "one": "/a folder", "two": "", "three": ""} {
		if got := locate.KubeconfigFolder(read, context); got != want {
			t.Errorf("context %q leads to %q, want %q; the file:\n%s", context, got, want, text)
		}
	}
	if got := locate.KubeconfigFolder(clientcmdapi.NewConfig(), ""); got != "" {
		t.Errorf("an empty one leads to %q", got)
	}
}

// Fault G6: two replicas on one machine have different names. The older one keeps its name.
func TestUniqueNames(t *testing.T) {
	folder := t.TempDir()
	other := exec.CommandContext(t.Context(), "sleep", "1000")
	must.Succeed(t, other.Start())
	server := httptest.NewServer(wire.Handler(fakeSource{name: "setpoint"}, wire.Token("secret")))
	t.Cleanup(func() { server.Close(); _ = other.Process.Kill(); _ = other.Wait() })
	address := server.Listener.Addr().String()
	publish(t, folder, locate.ProcessEntry{Name: "setpoint", PID: os.Getpid(), Address: address, Token: "secret"})
	find := locate.FolderSources(folder)
	first := find(t.Context())[0]
	publish(t, folder, locate.ProcessEntry{Name: "setpoint", PID: other.Process.Pid, Address: address, Token: "secret"})
	found := find(t.Context())
	second := fmt.Sprintf("setpoint-%d", other.Process.Pid)
	if got := strings.Fields(names(found)); len(got) != 2 || !slices.Contains(got, "setpoint") || !slices.Contains(got, second) || !slices.Contains(found, first) {
		t.Errorf("found %q, want setpoint and %s", names(found), second)
	}
	for _, s := range found {
		if run, err := s.Run(t.Context(), 1, false); err != nil || run.Process != s.Name() {
			t.Errorf("%s says that it is %q, %v", s.Name(), run.Process, err)
		}
	}
}

// Fault D3: the folder contains the addresses of hooks, of several sessions.
func TestHooks(t *testing.T) {
	folder := t.TempDir()
	if got := locate.ReadHooks(folder); got != "" {
		t.Errorf("in an empty folder: %q", got)
	}
	withdraw := must.Get(locate.PublishHooks(folder, []string{"hook.web=localhost:1", "a.b:8080=localhost:2"})).In(t)
	if got := locate.ReadHooks(folder); got != "hook.web=localhost:1,a.b:8080=localhost:2" {
		t.Errorf("published %q", got)
	}
	other := must.Get(locate.PublishHooks(folder, []string{"c.d=localhost:3"})).In(t)
	if got := strings.Split(locate.ReadHooks(folder), ","); len(got) != 3 {
		t.Errorf("of two sessions: %q", got)
	}
	if found := locate.FolderSources(folder)(t.Context()); len(found) != 0 {
		t.Errorf("it is taken for the process %s", names(found))
	}
	withdraw()
	if got := locate.ReadHooks(folder); got != "c.d=localhost:3" {
		t.Errorf("of the other session: %q", got)
	}
	other()
	killed := filepath.Join(folder, "hooks-1")
	must.Succeed(t, os.WriteFile(killed, []byte("e.f=localhost:4"), 0o600))
	if got := locate.ReadHooks(folder); got != "" {
		t.Errorf("of a killed session: %q", got)
	}
}
