package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/must"
)

const declaring = `declaration = {"name": "rates", "health": "/healthz", "controllers": [` +
	`{"apiVersion": "setpoint.dev/v1alpha1", "kind": "HandlerController", "metadata": {"name": "rates"},` +
	` "spec": {"resource": {"apiVersion": "v1", "resource": "configmaps"},` +
	` "handlers": [{"name": "publish", "reasons": ["Create"], "webhook": {"url": "/handlers/rates/publish"}}]}}]}
`

// newPython returns an operator in a file with that text.
func newPython(t *testing.T, text string) (*Python, *bytes.Buffer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "operator.py")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	var output bytes.Buffer
	return &Python{Files: []string{file}, Package: os.DirFS("testdata/python"), Stdout: &output, Stderr: &output}, &output
}

func openPython(ctx context.Context, t *testing.T, p *Python) (*Operator, error) {
	t.Helper()
	op, err := Open(ctx, Options{Python: p, Config: &rest.Config{Host: "http://127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Cleanup(op.Close)
	}
	return op, err
}

func TestProcessStops(t *testing.T) {
	p, _ := newPython(t, declaring)
	op := must.Get(openPython(t.Context(), t, p)).In(t)
	var reported struct{ Folder string }
	op.checkHealth(t.Context())
	must.Succeed(t, json.Unmarshal(must.Get(op.lastHealth()).In(t), &reported))
	folder := reported.Folder
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if op.Name != "rates" || len(op.goControllers()) != 1 || op.goControllers()[0].Name != "rates/rates" {
		t.Errorf("%s declares %+v", op.Name, op.goControllers())
	}
	op.Close()
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	op.checkHealth(t.Context())
	if _, err := op.lastHealth(); err == nil {
		t.Error("the process still responds")
	}
}

// The process ends when Setpoint ends in any way: its standard input closes.
func TestProcessEndsWithItsInput(t *testing.T) {
	p, _ := newPython(t, declaring)
	op := must.Get(openPython(t.Context(), t, p)).In(t)
	_ = op.process.alive.Close()
	<-op.process.ended
}

func TestEndOfProcessIsAnError(t *testing.T) {
	p, _ := newPython(t, declaring+"import os; pid = os.getpid(); declaration['name'] = f'pid-{pid}'\n")
	op := must.Get(openPython(t.Context(), t, p)).In(t)
	err := op.Run(t.Context(), func(ctx context.Context) error {
		var pid int
		if err := json.Unmarshal([]byte(strings.TrimPrefix(op.Name, "pid-")), &pid); err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if err == nil || err.Error() != "the process of the operator was killed by signal 9" {
		t.Error(err)
	}
}

func TestUndeclared(t *testing.T) {
	for _, c := range []struct{ text, output, err string }{
		{"import sys; print('SyntaxError'); sys.exit(3)", "SyntaxError", ErrImport.Error()},
		{"raise ValueError('no rates')", "no rates", "the process of the operator ended with exit code 1"},
		{"import os; os._exit(0)", "", "the process of the operator ended, but it should keep running"},
		{"import os; os.abort()", "", "the process of the operator was killed by signal 6"},
	} {
		p, output := newPython(t, c.text)
		_, err := openPython(t.Context(), t, p)
		if err == nil || err.Error() != c.err || !strings.Contains(output.String(), c.output) {
			t.Errorf("%s: %v, %s", c.text, err, output)
		}
	}
}

func TestInterruptedImport(t *testing.T) {
	p, _ := newPython(t, "import time\nwhile True: time.sleep(1)")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openPython(ctx, t, p); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	p, _ := newPython(t, declaring+`import sys; declaration["name"] = "described" if "--describe" in sys.argv else "run"`)
	for _, c := range []struct {
		open func(context.Context, Options) (*Operator, error)
		name string
	}{{Describe, "described"}, {Open, "run"}} {
		op := must.Get(c.open(t.Context(), Options{Python: p, Config: &rest.Config{Host: "http://127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)})).In(t)
		op.Close()
		if op.Name != c.name {
			t.Errorf("%s, want %s", op.Name, c.name)
		}
	}
}

func TestParsePython(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"operator.py", "plain"} {
		must.Succeed(t, os.WriteFile(name, nil, 0o600))
	}
	for _, c := range []struct {
		args, modules []string
		want, err     string
	}{
		{args: []string{"operator.py", "plain"}, want: "operator.py plain"},
		{args: []string{"operator.py"}, modules: []string{"a.b"}, want: "operator.py -m a.b"},
		{args: []string{"pkg.handlers"}, want: "-m pkg.handlers"},
		{args: []string{"missing.py"}, err: "stat missing.py: no such file or directory"},
		{args: []string{"no/where"}, err: "stat no/where: no such file or directory"},
		{args: []string{"."}, err: ". is a folder; use its files, or a module with -m"},
		{modules: []string{"a/b"}, err: `-m "a/b" is no name of a module`},
		{err: "no file and no module of the operator is given"},
	} {
		p, err := ParsePython(c.args, c.modules)
		if c.err == "" && (err != nil || strings.Join(p.arguments(false), " ") != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%v, %v: %+v, %v", c.args, c.modules, p, err)
		}
	}
}

func TestKubeconfigOfContext(t *testing.T) {
	dir := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://a", CertificateAuthority: "ca.crt"}
	config.Contexts["one"], config.Contexts["two"] = &clientcmdapi.Context{Cluster: "a"}, &clientcmdapi.Context{Cluster: "a", Namespace: "shop"}
	config.CurrentContext = "one"
	file := filepath.Join(dir, "config")
	must.Succeed(t, clientcmd.WriteToFile(*config, file))
	written := filepath.Join(t.TempDir(), "kubeconfig")
	env, err := Kubeconfig{File: file, Context: "two"}.environment(written)
	if err != nil || !slices.Equal(env, []string{"KUBECONFIG=" + written}) {
		t.Fatal(env, err)
	}
	got, err := clientcmd.LoadFromFile(written)
	if err != nil || got.CurrentContext != "two" || got.Clusters["a"].CertificateAuthority != filepath.Join(dir, "ca.crt") {
		t.Errorf("%+v, %v", got, err)
	}
	if info, err := os.Stat(written); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if env, err := (Kubeconfig{File: file}).environment(written); err != nil || !slices.Equal(env, []string{"KUBECONFIG=" + file}) {
		t.Error(env, err)
	}
	if env, err := (Kubeconfig{}).environment(written); err != nil || env != nil {
		t.Error(env, err)
	}
}

func TestStaleFoldersAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, remove, err := newFolder()
	must.Succeed(t, err)
	stale := filepath.Join(os.TempDir(), folderPrefix+"killed")
	starting := filepath.Join(os.TempDir(), folderPrefix+"starting")
	for _, dir := range []string{stale, starting} {
		must.Succeed(t, os.Mkdir(dir, 0o700))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(stale, lock), nil, 0o600))
	_, removeNext, err := newFolder()
	must.Succeed(t, err)
	exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	if exists(stale) || !exists(starting) || !exists(string(held)) {
		t.Errorf("stale %t, starting %t, held %t", exists(stale), exists(starting), exists(string(held)))
	}
	remove()
	removeNext()
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

func TestFindInterpreter(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return path
	}
	recent := script("env/bin/python3", "echo Python 3.9.0")
	old := script("old", "echo Python 3.8.19")
	two := script("two", "echo Python 2.7.18")
	four := script("four", "echo Python 4.0.0")
	other := script("other", "echo Ruby")
	failing := script("failing", "echo no interpreter here >&2; exit 7")
	t.Setenv("PATH", filepath.Join(dir, "env", "bin"))
	for _, c := range []struct{ flag, virtualEnv, want, err string }{
		{want: recent},
		{virtualEnv: filepath.Join(dir, "env"), want: recent},
		{flag: four, virtualEnv: "/no/where", want: four},
		{flag: "python3", want: recent},
		{flag: old, err: old + " is Python 3.8.19, and operators need Python 3.9 or newer: use --python-interpreter PATH"},
		{flag: two, err: two + " is Python 2.7.18, and"},
		{flag: other, err: other + " is no Python interpreter"},
		{flag: failing, err: failing + " is no Python interpreter (exit status 7): it printed \"no interpreter here\""},
		{flag: "/no/python", err: "find Python 3.9 or newer: exec: \"/no/python\": stat /no/python: no such file or directory"},
		{virtualEnv: "/no/env", err: "/no/env/bin/python3: no such file"},
	} {
		got, _, err := FindInterpreter(t.Context(), c.flag, c.virtualEnv)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	t.Setenv("PATH", dir)
	if _, _, err := FindInterpreter(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "install it, or use --python-interpreter PATH") {
		t.Error(err)
	}
}
