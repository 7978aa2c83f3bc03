package project_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Fault D1: what has to be compiled is compiled by a step of its own.
func TestGoRunIsCompiledFirst(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const build = "go build -v -buildvcs=false -ldflags=-s -w "
	for name, c := range map[string]struct{ command, build, run string }{
		"a package":       {`[go, run, ., --address, ":{port}"]`, build + "-o {binary} .", "{binary} --address :{port}"},
		"flags":           {"[go, run, -trimpath, -tags, x, ./rates]", build + "-trimpath -tags x -o {binary} ./rates", "{binary}"},
		"files":           {"[go, run, main.go, more.go, -v]", build + "-o {binary} main.go more.go", "{binary} -v"},
		"own ldflags":     {"[go, run, -ldflags=-w, .]", "go build -v -buildvcs=false -ldflags=-w -o {binary} .", "{binary}"},
		"another go":      {"[/opt/go/bin/go, run, .]", "/opt/go/bin/go build -v -buildvcs=false -ldflags=-s -w -o {binary} .", "{binary}"},
		"a version":       {"[go, run, example.com/a@v1]", "", "go run example.com/a@v1"},
		"under a program": {"[go, run, -exec, time, .]", "", "go run -exec time ."},
		"elsewhere":       {"[go, run, -C, there, .]", "", "go run -C there ."},
		"no package":      {"[go, run, -v]", "", "go run -v"},
		"not go run":      {"[go, tool, run]", "", "go tool run"},
		"a script":        {"[python3, -u, hook.py]", "", "python3 -u hook.py"},
		"build of one's own": {
			`["{binary}"], build: [make, "OUT={binary}"]`, "make OUT={binary}", "{binary}",
		},
	} {
		p, err := project.Load(write(t, "processes: [{name: a, command: "+c.command+"}]"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := p.Processes[0]
		if strings.Join(got.Build, " ") != c.build || strings.Join(got.Command, " ") != c.run {
			t.Errorf("%s: build %q, run %q", name, got.Build, got.Command)
		}
		must.Succeed(t, p.Place(process.FreePorts(), "/bin/it"))
		got = p.Processes[0]
		if joined := strings.Join(append(got.Build, got.Command...), " "); len(got.Build) > 0 && strings.Contains(joined, project.Binary) {
			t.Errorf("%s: %s is left in %q", name, project.Binary, joined)
		}
	}
}
