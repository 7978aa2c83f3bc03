package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// write makes a folder with a setpoint.yaml.
func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, project.FileName), []byte(text), 0o600))
	return dir
}

func TestLoad(t *testing.T) {
	dir := write(t, `
apply: [crd.yaml, more, /]
processes:
- command: [python3, -u, sync.py, "{port}", ""]
  env: {PORT: "{port}", EMPTY: ""}
  service: hook.web
  ready: /healthz
- name: worker
  command: [./worker]
  dir: sub
  watch: [src]
  env: {HOOK: "localhost:{port:hook}", OWN: "{port}"}
  ready: /
- command: [/usr/bin/other, "--listen=:{port}"]
  service: hook.web:8443
  name: secure
`)
	for _, folder := range []string{"crd.yaml", "more", "sub"} {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
	}
	got := must.Get(project.Load(dir)).In(t)
	want := &project.Project{
		Dir:   dir,
		File:  filepath.Join(dir, "setpoint.yaml"),
		Apply: []string{filepath.Join(dir, "crd.yaml"), filepath.Join(dir, "more"), "/"},
		Processes: []project.Process{{
			Name: "hook", Command: []string{"python3", "-u", "sync.py", "{port}", ""}, Dir: dir,
			Env:     map[string]string{"PORT": "{port}", "EMPTY": ""},
			Service: &project.Service{Name: "hook", Namespace: "web"}, Ready: "/healthz",
		}, {
			Name: "worker", Command: []string{"./worker"}, Dir: filepath.Join(dir, "sub"),
			Watch: []string{filepath.Join(dir, "sub", "src")},
			Env:   map[string]string{"HOOK": "localhost:{port:hook}", "OWN": "{port}"}, Ready: "/",
		}, {
			Name: "secure", Command: []string{"/usr/bin/other", "--listen=:{port}"}, Dir: dir,
			Service: &project.Service{Name: "hook", Namespace: "web", Port: 8443},
		}},
	}
	for i := range want.Processes {
		want.Processes[i].Written = want.Processes[i].Command
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	next := 4710
	must.Succeed(t, got.Place(func() (int, error) { next++; return next, nil }, "/bin/it"))
	if first := got.Processes[0]; first.Command[3] != "4711" || first.Env["PORT"] != "4711" || first.Port != 4711 {
		t.Errorf("with port: %v %v", first.Command, first.Env)
	}
	if second := got.Processes[1]; second.Env["HOOK"] != "localhost:4711" || second.Env["OWN"] != "4712" {
		t.Errorf("with another's port: %v", second.Env)
	}
}

func TestEmptyFileIsAProject(t *testing.T) {
	must.Get(project.Load(write(t, "# nothing yet\n"))).In(t)
}

func TestLoadErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"not YAML":             {"apply: [", "did not find expected node content"},
		"twice":                {"apply: []\napply: []", `key "apply" already set`},
		"a list":               {"[]", "cannot be a JSON array"},
		"binary without build": {`processes: [{command: ["{binary}"]}]`, "processes[0].command: {binary} is written by build: add build"},
		"unknown field":        {"aply: []", `unknown field "aply"`},
		"unknown deep":         {"processes: [{command: [a], enviroment: {}}]", `unknown field "processes[0].enviroment"`},
		"apply text":           {"apply: crd.yaml", "apply: cannot be a JSON string"},
		"apply empty":          {`apply: [""]`, "apply[0]: : no such file or folder"},
		"no command":           {"processes: [{name: a}]", "processes[0].command: required"},
		"command text":         {"processes: [{command: ls}]", "processes[0].command: cannot be a JSON string"},
		"env number":           {"processes: [{command: [a], name: b}, {command: [a], env: {HOST: a, PORT: 1}}]", "processes[1].env.PORT: cannot be a JSON number"},
		"no manifest":          {"apply: [crd.yaml]", "apply[0]: crd.yaml: no such file or folder"},
		"no folder":            {"processes: [{command: [a], dir: sub}]", "processes[0].dir: sub: no such file or folder"},
		"service form":         {"processes: [{command: ['{port}'], service: hook}]", `processes[0].service: must be "name.namespace"`},
		"service URL":          {"processes: [{command: ['{port}'], service: 'http://a.b/'}]", `processes[0].service: must be "name.namespace"`},
		"service case":         {"processes: [{command: ['{port}'], service: A.b}]", `processes[0].service: must be "name.namespace"`},
		"service port":         {"processes: [{command: [a]}, {command: ['{port}'], service: 'a.b:99999'}]", `processes[1].service: "99999" is not a port`},
		"service without port": {"processes: [{command: [a], service: a.b}]", `processes[0].service: the process needs its port`},
		"ready alone":          {"processes: [{command: [a], ready: /}]", "processes[0].ready: a readiness path needs a port"},
		"a stranger's port":    {"processes: [{command: ['{port}']}, {name: b, command: ['{port:a}']}]", "processes[1]: {port:a}: no process of that name"},
		"ready form":           {"processes: [{command: ['{port}'], service: a.b, ready: health}]", "processes[0].ready: must be an HTTP path"},
		"same name":            {"processes: [{command: [a]}, {command: [b/a]}]", `processes[1].name: duplicate process name "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, c.text)
			_, err := project.Load(dir)
			if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "setpoint.yaml")+": ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// Fault D4: each problem names the file and the field.
func TestLoadReportsAllErrors(t *testing.T) {
	dir := write(t, "apply: [gone]\nprocesses: [{}]")
	_, err := project.Load(dir)
	for _, want := range []string{"apply[0]", "processes[0].command"} {
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "setpoint.yaml")+": "+want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
}

func TestLoadWithoutFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for name, want := range map[string]string{
		dir:          dir + " has no setpoint.yaml with manifests to apply and processes to run",
		file:         file + " is a file; use the folder of a setpoint.yaml",
		dir + "/nix": dir + "/nix: no such folder",
	} {
		if _, err := project.Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestForManifests(t *testing.T) {
	dir := write(t, "apply: []")
	t.Chdir(dir)
	must.Succeed(t, os.WriteFile("a.yaml", nil, 0o600))
	p, err := project.ForManifests([]string{"a.yaml"})
	if err != nil || p.Name() != "a.yaml" || p.HasFile() || len(p.Apply) != 1 || !filepath.IsAbs(p.Apply[0]) || p.Dir != filepath.Dir(p.Apply[0]) {
		t.Errorf("%+v, %v", p, err)
	}
	for name, want := range map[string]string{
		"b.yaml":        "b.yaml: no such file",
		"setpoint.yaml": "setpoint.yaml is no manifest; use its folder, .",
	} {
		if _, err := project.ForManifests([]string{"a.yaml", name}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestServiceMatches(t *testing.T) {
	anyPort := project.Service{Name: "hook", Namespace: "web"}
	onePort := project.Service{Name: "hook", Namespace: "web", Port: 8443}
	for _, c := range []struct {
		addr     string
		any, one bool
	}{
		{"hook.web:80", true, false},
		{"hook.web:8443", true, true},
		{"hook.web.svc:80", true, false},
		{"hook.web.svc.cluster.local:8443", true, true},
		{"hook.web.svc.cluster.local.:8443", true, true},
		{"HOOK.web:80", true, false},
		{"hook.web", true, false},
		{"hook.other:80", false, false},
		{"hook:80", false, false},
		{"xhook.web:80", false, false},
		{"hook.web.example.com:80", false, false},
		{"127.0.0.1:80", false, false},
		{"[::1]:80", false, false},
	} {
		if got := anyPort.Matches(c.addr); got != c.any {
			t.Errorf("%s: any port: %t", c.addr, got)
		}
		if got := onePort.Matches(c.addr); got != c.one {
			t.Errorf("%s: port 8443: %t", c.addr, got)
		}
	}
	if got := onePort.String(); got != "hook.web:8443" {
		t.Error(got)
	}
}
