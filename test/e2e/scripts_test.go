package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "scripts")
}

// TestAlone runs the scripts that boot control planes of their own: they break these, or must find no other controller.
func TestAlone(t *testing.T) {
	t.Parallel()
	runScripts(t, "alone")
}

func runScripts(t *testing.T, folder string) {
	golang := goVariables(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", folder),
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, golang...)
			return setup(env)
		},
		Cmds:               commands(),
		Condition:          condition,
		RequireUniqueNames: true,
	})
}

// condition decides on [oldest], the control plane is the oldest supported Kubernetes; [older], it is older than that of
// the binary; and [inline], the inline.yaml of the examples run on it.
func condition(name string) (bool, error) {
	switch name {
	case "older":
		return os.Getenv("SETPOINT_KUBERNETES_BINARIES") != "", nil
	case "oldest":
		return onOldest()
	case "inline":
		return os.Getenv(inlineVariable) != "", nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// onOldest tells whether the API server of $SETPOINT_KUBERNETES_BINARIES is the oldest supported one.
var onOldest = sync.OnceValues(func() (bool, error) {
	folder := os.Getenv("SETPOINT_KUBERNETES_BINARIES")
	if folder == "" {
		return false, nil
	}
	version, err := exec.Command(filepath.Join(folder, "kube-apiserver"), "--version").Output()
	return strings.HasPrefix(string(version), "Kubernetes v1.30."), err
})

// inlineVariable is set in test processes that run beside the inline.yaml of the examples.
const inlineVariable = "SETPOINT_E2E_INLINE"

// TestInlineExamples runs the scripts of the examples that are also one file, with that
// file. The kinds are the same, so they have a control plane of their own.
func TestInlineExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/inline.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples with an inline.yaml found (%v)", err)
	}
	self := must.Get(os.Executable()).In(t)
	args := append([]string{"dev"}, files...)
	dev := exec.CommandContext(t.Context(), os.Getenv("SETPOINT"), append(args, "--", self, "-test.run=^TestExamples$", "-test.parallel=4")...)
	dev.Env = append(os.Environ(), inlineVariable+"=1", "SETPOINT_HOOKS=")
	if output, err := dev.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestExamples runs the script that each example brings along.
func TestExamples(t *testing.T) {
	t.Parallel()
	pattern := "script.txtar"
	if inline, _ := condition("inline"); inline {
		pattern = "inline.yaml"
	}
	found, err := filepath.Glob("../../examples/*/" + pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no examples with %s found (%v)", pattern, err)
	}
	golang := goVariables(t)
	for _, file := range found {
		script := filepath.Join(filepath.Dir(file), "script.txtar")
		folder := must.Get(filepath.Abs(filepath.Dir(script))).In(t)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			testscript.RunT(exampleT{t}, testscript.Params{
				Files:     []string{script},
				Cmds:      commands(),
				Condition: condition,
				Setup: func(env *testscript.Env) error {
					env.Setenv("EXAMPLE", folder)
					env.Vars = append(env.Vars, golang...)
					return setup(env)
				},
			})
		})
	}
}

// exampleT runs the one script of an example in the example's own test. As a parallel
// test below that it would start after all others, and those of the examples are long.
type exampleT struct{ *testing.T }

func (exampleT) Parallel() {}

func (exampleT) Verbose() bool { return testing.Verbose() }

func (t exampleT) Run(_ string, script func(testscript.T)) { script(t) }

// goVariables let scripts build what is written in Go with what the go command
// has built before, although their home is another one.
func goVariables(t *testing.T) []string {
	var variables []string
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOTOOLCHAIN", "CGO_ENABLED"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", name, err)
		}
		variables = append(variables, name+"="+strings.TrimSpace(string(value)))
	}
	return variables
}

// Keys of what Setup leaves for commands.
type (
	environKey struct{}
	hooksKey   struct{}
	kubectlKey struct{}
)

// setup gives a script a namespace of its own, in NS, and a kubeconfig for
// which that namespace is the default.
func setup(env *testscript.Env) error {
	ns := namespaceName(env.WorkDir)
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		return err
	}
	config := filepath.Join(env.WorkDir, ".kubeconfig")
	env.Setenv("NS", ns)
	env.Setenv("KUBECONFIG", config)
	env.Setenv("SETPOINT", os.Getenv("SETPOINT"))
	env.Setenv("EXAMPLES", examples)
	env.Setenv("SETPOINT_HOOKS", os.Getenv("SETPOINT_HOOKS"))
	env.Setenv("SETPOINT_KUBERNETES_BINARIES", os.Getenv("SETPOINT_KUBERNETES_BINARIES"))
	env.Setenv("HOME", env.WorkDir) // kubectl keeps a cache there
	env.Values[collectorsKey{}] = map[string]*collector{}
	env.Values[hooksKey{}] = &hookServers{byName: map[string]*hookServer{}}
	env.Values[environKey{}] = env.Vars
	client := &kubectl{}
	env.Values[kubectlKey{}] = client
	env.Values[proxyKey{}] = &proxy{}

	text, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	return client.useNamespace(config, ns)
}

// namespaceName is the script's name, made unique: a control plane may be kept
// and serve many runs.
func namespaceName(workDir string) string {
	name := strings.TrimPrefix(filepath.Base(workDir), "script-")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return fmt.Sprintf("%s-%04x", strings.Trim(name[:min(len(name), 40)], "-"), rand.IntN(1<<16))
}

// TestDemo runs what `make demo` runs, on a control plane of its own: the demo
// changes objects of the examples, which the examples' scripts look at.
func TestDemo(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	projects, err := filepath.Glob(filepath.Join(root, "examples", "*", "setpoint.yaml"))
	if err != nil || len(projects) == 0 {
		t.Fatalf("no examples with a setpoint.yaml found (%v)", err)
	}
	var folders []string
	for _, project := range projects {
		folders = append(folders, filepath.Join("examples", filepath.Base(filepath.Dir(project))))
	}
	args := append([]string{"dev", "--process-logs", t.TempDir()}, folders...)
	args = append(append(args, "--", "sh", filepath.Join("examples", "demo.sh")), folders...)
	demo := exec.Command(os.Getenv("SETPOINT"), args...)
	demo.Dir = root
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", demo, err, out)
	}
	// Fault D2: the story is not interrupted by what programs log.
	if logged := regexp.MustCompile(`(?m)^.*level=(INFO|DEBUG).*$`).Find(out); logged != nil {
		t.Errorf("the demo shows a line of a log: %s", logged)
	}
}
