package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

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
