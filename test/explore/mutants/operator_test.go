package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"sigs.k8s.io/yaml"
)

// set is an operator with its mutants: a file in testdata.
type set struct {
	// Operator is a file with its manifests; the text SOURCE in it stands for the text of the file Source.
	Operator string `json:"operator"`
	Source   string `json:"source"`
	// With are files with what else is needed, such as an Exploration.
	With    []string `json:"with"`
	Bounds  bounds   `json:"bounds"`
	Mutants []mutant `json:"mutants"`

	name string
}

// bounds are those of the command line. The Exploration has none.
type bounds struct {
	Edits   int `json:"edits"`
	Crashes int `json:"crashes"`
	Faults  int `json:"faults"`
}

// mutant is an operator with one mistake.
type mutant struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	// Replace are the parts of the text that differ.
	Replace []replacement `json:"replace"`
	// Expected is the property that its author expected to be violated, before the first run; empty for the oldest.
	Expected string `json:"expected"`
	// Violates is the property or invariant that is violated, if not the expected one; Missed says why nothing is.
	Violates string `json:"violates"`
	Missed   string `json:"missed"`
	// Bounds are those of the set if they are absent.
	Bounds *bounds `json:"bounds"`
}

// replacement is text that the operator has once, and what the mutant has.
type replacement struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// exploration is what setpoint test -o json says of one.
type exploration struct {
	Error  string `json:"error"`
	Report struct {
		States     int     `json:"states"`
		Seconds    float64 `json:"seconds"`
		Cut        string  `json:"cut"`
		Violations []story `json:"violations"`
		// Suggested are invariants as the file of an Exploration has them.
		Suggested []json.RawMessage `json:"suggested"`
	} `json:"report"`
}

type story struct {
	Property string `json:"property"`
	Steps    []step `json:"steps"`
	Other    []step `json:"other"`
}

type step struct {
	Step string `json:"step"`
	Name string `json:"name"`
}

func (s *set) boundsOf(m mutant) bounds { return *cmp.Or(m.Bounds, &s.Bounds) }

// run explores the operator with replacements.
func (s *set) run(t *testing.T, setpoint string, replace []replacement, b bounds) exploration {
	t.Helper()
	arguments := []string{
		"test", s.write(t, replace), "--only", "explore", "-o", "json", "--stories", t.TempDir(), "--time", "10m",
		"--edits", strconv.Itoa(b.Edits), "--crashes", strconv.Itoa(b.Crashes), "--faults", strconv.Itoa(b.Faults),
	}
	arguments = append(arguments, s.With...)
	command := exec.CommandContext(t.Context(), setpoint, arguments...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	var violated *exec.ExitError
	if err != nil && (!errors.As(err, &violated) || violated.ExitCode() != 1) {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var results struct {
		Explorations []exploration `json:"explorations"`
	}
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatalf("%v: %s%s", err, out, &stderr)
	}
	if len(results.Explorations) != 1 || results.Explorations[0].Error != "" {
		t.Fatalf("want one exploration that ends: %s%s", out, &stderr)
	}
	return results.Explorations[0]
}

// write writes the operator with replacements, and returns the file with its manifests. Its source is beside it, for
// hooks that are programs.
func (s *set) write(t *testing.T, replace []replacement) string {
	t.Helper()
	texts := []string{read(t, s.Operator), ""}
	if s.Source != "" {
		texts[1] = read(t, s.Source)
	}
	mutate(t, texts, replace)
	quoted := must.Get(json.Marshal(texts[1])).In(t) // A JSON string is one of YAML.
	folder := t.TempDir()
	manifests := filepath.Join(folder, "operator.yaml")
	must.Succeed(t, os.WriteFile(manifests, []byte(strings.ReplaceAll(texts[0], " SOURCE", " "+string(quoted))), 0o600))
	if s.Source != "" {
		must.Succeed(t, os.WriteFile(filepath.Join(folder, filepath.Base(s.Source)), []byte(texts[1]), 0o700))
	}
	return manifests
}

// mutate makes replacements. Each has one place in all texts.
func mutate(t *testing.T, texts []string, replace []replacement) {
	t.Helper()
	for _, r := range replace {
		if n := strings.Count(strings.Join(texts, "\n"), r.Old); n != 1 {
			t.Fatalf("the operator has %d times %q, want it once", n, r.Old)
		}
		for i := range texts {
			texts[i] = strings.Replace(texts[i], r.Old, r.New, 1)
		}
	}
}

// sets returns the files in testdata.
func sets(t *testing.T) []set {
	t.Helper()
	files := must.Get(filepath.Glob("testdata/*.mutants.yaml")).In(t)
	var all []set
	for _, file := range files {
		name := filepath.Base(file)
		s := set{name: strings.TrimSuffix(name, ".mutants.yaml")}
		if err := yaml.UnmarshalStrict([]byte(read(t, name)), &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, with := range s.With {
			s.With[i] = filepath.Join("testdata", with)
		}
		all = append(all, s)
	}
	return all
}

// read returns a file of testdata.
func read(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join("testdata", name))).In(t))
}

// build returns the light binary, or the one that SETPOINT names. Engines are linked into commands only, not into tests.
func build(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("SETPOINT"); given != "" {
		return given
	}
	binary := filepath.Join(t.TempDir(), "setpoint")
	command := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "../../../cmd/setpoint")
	command.Env = append(command.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}
