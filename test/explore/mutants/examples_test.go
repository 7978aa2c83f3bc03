package mutants

import (
	"encoding/json"
	"errors"
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// example is what is explored of one.
type example struct {
	files string
	// finalizes is set if its objects have a finalizer: they are deleted while kinds are not served, rights are revoked, and
	// with their namespace.
	finalizes bool
}

var explored = []example{
	{files: "blue-green"},
	{files: "config-restart/inline.yaml config-restart/exploration.yaml"},
	{files: "configmap-propagation"},
	{files: "crd-roles"},
	{files: "guitar/inline.yaml guitar/exploration.yaml"},
	{files: "immortalcontainer"},
	{files: "kopf/exchangerate.py kopf/example.yaml ../test/explore/mutants/testdata/explorations/exchangerate.yaml"},
	{files: "kopf/rota.py kopf/crds.yaml kopf/example.yaml"},
	{files: "kopf/tally.py kopf/crds.yaml kopf/example.yaml"},
	{files: "rolling-set"},
	{files: "service-per-pod", finalizes: true},
}

// examples is their folder.
const examples = "../../../examples"

// TestDeletionsOfTheExamplesEnd explores the examples whose hooks run without a cluster: all objects can be deleted, whatever
// else is gone. No search may be cut by its time. The modules that operators for Kopf call a cluster with are those in testdata.
func TestDeletionsOfTheExamplesEnd(t *testing.T) {
	t.Parallel()
	setpoint := build(t)
	python := must.Get(filepath.Abs(filepath.Join("testdata", "python"))).In(t)
	for _, one := range explored {
		t.Run(one.files, func(t *testing.T) {
			t.Parallel()
			one.explore(t, setpoint, python)
		})
	}
}

func (e *example) explore(t *testing.T, setpoint, python string) {
	t.Helper()
	arguments := []string{"test", "--only", "explore", "-o", "json", "--stories", t.TempDir(), "--edits", "1", "--crashes", "0", "--faults", "0", "--time", "30m"}
	for file := range strings.FieldsSeq(e.files) {
		arguments = append(arguments, filepath.Join(examples, file))
	}
	command := exec.CommandContext(t.Context(), setpoint, arguments...)
	command.Env = append(command.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+python, "RATES=http://127.0.0.1:1")
	out, err := command.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		t.Fatalf("%v: %s%s", err, out, failed.Stderr)
	}
	var results struct {
		Explorations []struct {
			Report struct {
				Cut          string
				Holds, Notes []string
			}
		}
	}
	if err := json.Unmarshal(out, &results); err != nil || len(results.Explorations) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, x := range results.Explorations {
		deleted := slices.ContainsFunc(x.Report.Notes, func(note string) bool { return strings.HasPrefix(note, "Deletion was explored") })
		if x.Report.Cut != "" || !slices.Contains(x.Report.Holds, "Finalized") || deleted != e.finalizes {
			t.Errorf("cut: %q, holds %q, deletion explored: %v; notes: %q", x.Report.Cut, x.Report.Holds, deleted, x.Report.Notes)
		}
	}
}

// TestEveryExampleIsExplored looks for examples that nothing explores: those in Go have a test of their own, and reviews of
// image-policy keep no objects.
func TestEveryExampleIsExplored(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(examples, "*", "README.md"))
	if err != nil || len(folders) < len(explored) {
		t.Fatal(folders, err)
	}
	for _, readme := range folders {
		folder := filepath.Dir(readme)
		name := filepath.Base(folder)
		here := slices.ContainsFunc(explored, func(e example) bool { return e.files == name || strings.HasPrefix(e.files, name+"/") })
		own, err := os.ReadFile(filepath.Join(folder, "explore_test.go"))
		if !here && (err != nil || !strings.Contains(string(own), "setpointtest.Explore(")) && name != "image-policy" {
			t.Errorf("nothing explores %s", folder)
		}
	}
}
