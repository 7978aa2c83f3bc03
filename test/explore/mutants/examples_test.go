package mutants

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeletionsOfTheExamplesEnd deletes the objects of the examples whose hooks run without a cluster, while kinds are not
// served, rights are revoked, and with their namespace. Those in Go are explored by tests of their own.
func TestDeletionsOfTheExamplesEnd(t *testing.T) {
	setpoint, deletions := build(t), 0
	for _, files := range [][]string{
		{"blue-green"}, {"configmap-propagation"}, {"immortalcontainer"}, {"rolling-set"}, {"service-per-pod"}, {"guitar/inline.yaml"},
		{"config-restart/inline.yaml", "config-restart/exploration.yaml"},
	} {
		t.Run(strings.Join(files, " "), func(t *testing.T) {
			arguments := []string{"test", "--only", "explore", "-o", "json", "--stories", t.TempDir(), "--edits", "0", "--crashes", "0", "--faults", "0", "--time", "30m"}
			for _, file := range files {
				arguments = append(arguments, filepath.Join("..", "..", "..", "examples", file))
			}
			out, err := exec.CommandContext(t.Context(), setpoint, arguments...).Output()
			if failed, is := errors.AsType[*exec.ExitError](err); is {
				t.Fatalf("%v: %s%s", err, out, failed.Stderr)
			}
			var results struct {
				Explorations []struct {
					Report struct{ Notes []string }
				}
			}
			if err := json.Unmarshal(out, &results); err != nil || len(results.Explorations) == 0 {
				t.Fatalf("%v: %s", err, out)
			}
			for _, e := range results.Explorations {
				for _, note := range e.Report.Notes {
					if strings.HasPrefix(note, "Deletion was explored") {
						deletions++
						t.Log(note)
					}
				}
			}
		})
	}
	if deletions == 0 {
		t.Error("no example has a finalizer")
	}
}
