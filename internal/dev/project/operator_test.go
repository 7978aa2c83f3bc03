package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestForOperator(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"ops/rates.py", "ops/lib/more.py", "other.py"} {
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, os.WriteFile(name, nil, 0o600))
	}
	p := must.Get(project.ForOperator([]string{"ops/rates.py", "ops/lib/more.py"}, "")).In(t)
	must.Succeed(t, p.Place(func() (int, error) { return 5, nil }, "/bin/it"))
	process := p.Processes[0]
	if got := strings.Join(process.Command, " "); got != "/bin/it run --address=127.0.0.1:5 --python rates.py "+filepath.Join("lib", "more.py") {
		t.Error(got)
	}
	if process.Name != "rates" || filepath.Base(process.Dir) != "ops" || !process.RunsOperator() || process.Written[0] != project.Setpoint {
		t.Errorf("got %+v", process)
	}
	for want, files := range map[string][]string{
		"missing.py: no such file":        {"missing.py"},
		"other.py is not in ":             {"ops/rates.py", "other.py"},
		"write a setpoint.yaml with this": {"ops/rates.py", "other.py"},
		"ops/missing.py: no such file":    {"other.py", "ops/missing.py"},
	} {
		if _, err := project.ForOperator(files, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", files, err)
		}
	}
}

func TestInterpreterOfOperator(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, mode := range map[string]os.FileMode{"rates.py": 0o600, "python": 0o700} {
		must.Succeed(t, os.WriteFile(name, nil, mode))
	}
	p, err := project.ForOperator([]string{"rates.py"}, "./python")
	if err != nil || !filepath.IsAbs(strings.TrimPrefix(p.Processes[0].Command[3], "--python-interpreter=")) || p.Processes[0].Command[5] != "rates.py" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := project.ForOperator([]string{"rates.py"}, "./missing"); err == nil || !strings.Contains(err.Error(), "--python-interpreter: ") {
		t.Error(err)
	}
}

func TestOnlySetpointIsReplaced(t *testing.T) {
	for _, c := range []struct {
		command  []string
		operator bool
		program  string
	}{
		{[]string{"setpoint", "run"}, true, "/bin/it"},
		{[]string{"setpoint", "dev"}, false, "/bin/it"},
		{[]string{"python3", "run"}, false, "python3"},
	} {
		p := project.Project{Processes: []project.Process{{Command: c.command, Written: c.command}}}
		must.Succeed(t, p.Place(nil, "/bin/it"))
		if placed := p.Processes[0]; placed.Command[0] != c.program || placed.RunsOperator() != c.operator || placed.Written[0] != c.command[0] {
			t.Errorf("%q: %q", c.command, placed.Command)
		}
	}
}
