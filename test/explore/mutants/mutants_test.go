// Package mutants shows what the explorations of setpoint test find: operators with one mistake each.
//
// What lives here: small operators, mutants of them and of the examples as replacements in their text, and the property
// that each violates. Who calls: make explore-test runs the quick ones, make explore-test-long all.
package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var long = flag.Bool("long", false, "run the mutants that take more than a few seconds as well")

// set is an operator with its mutants: a file in testdata.
type set struct {
	// Operator and Exploration are files; the Exploration may be in that of the operator.
	Operator    string `json:"operator"`
	Exploration string `json:"exploration"`
	Bounds      bounds `json:"bounds"`
	// Long is set if the operator itself takes more than a few seconds.
	Long    bool     `json:"long"`
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
	// Violates is the property or invariant that is violated; Missed says why nothing is.
	Violates string `json:"violates"`
	Missed   string `json:"missed"`
	// Bounds are those of the set if they are absent.
	Bounds *bounds `json:"bounds"`
	Long   bool    `json:"long"`
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

func TestMutants(t *testing.T) {
	setpoint := build(t)
	var table strings.Builder
	table.WriteString("| class | mutant | violates | edits, crashes, faults | steps | states | seconds |\n|---|---|---|---|---|---|---|\n")
	for _, s := range sets(t) {
		t.Run(s.name, func(t *testing.T) {
			if !s.Long || *long {
				s.explore(t, setpoint, &table)
			}
		})
	}
	t.Log("\n" + table.String())
}

// TestThePageHasEveryMutant compares names. What is found, and how, TestMutants prints as the table of the page.
func TestThePageHasEveryMutant(t *testing.T) {
	page, err := os.ReadFile("../../../docs/test-mutants.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, s := range sets(t) {
		for _, m := range s.Mutants {
			rows++
			found := cmp.Or(m.Missed, m.Violates)
			if !strings.Contains(string(page), "| "+m.Class+" | "+m.Name+" | ") || !strings.Contains(string(page), found) {
				t.Errorf("docs/test-mutants.md does not have %q", m.Name)
			}
		}
	}
	if n := strings.Count(string(page), "\n| ") - 1; n != rows {
		t.Errorf("docs/test-mutants.md has %d mutants, want %d", n, rows)
	}
}

// explore explores the operator within all bounds that its mutants have, and then the mutants.
func (s *set) explore(t *testing.T, setpoint string, table *strings.Builder) {
	var within []bounds
	for _, m := range s.Mutants {
		if b := s.boundsOf(m); (!m.Long || *long) && !slices.Contains(within, b) {
			within = append(within, b)
		}
	}
	for _, b := range within {
		t.Run(fmt.Sprintf("original %d-%d-%d", b.Edits, b.Crashes, b.Faults), func(t *testing.T) {
			x := s.run(t, setpoint, nil, b)
			for _, v := range x.Report.Violations {
				t.Errorf("the operator violates %s", v.Property)
			}
			if x.Report.Cut != "" {
				t.Errorf("not all was explored: %s", x.Report.Cut)
			}
		})
	}
	for _, m := range s.Mutants {
		if m.Long && !*long {
			continue
		}
		t.Run(m.Name, func(t *testing.T) { m.check(t, s.run(t, setpoint, m.Replace, s.boundsOf(m)), table) })
	}
}

func (s *set) boundsOf(m mutant) bounds { return *cmp.Or(m.Bounds, &s.Bounds) }

// check reports a mutant that is not found by the property that it violates, and adds it to the table.
func (m *mutant) check(t *testing.T, x exploration, table *strings.Builder) {
	t.Helper()
	var properties []string
	found := story{}
	for _, v := range x.Report.Violations {
		properties = append(properties, v.Property)
		if v.Property == m.Violates {
			found = v
		}
	}
	if m.Missed != "" {
		if len(properties) > 0 {
			t.Errorf("found by %q: it is no longer missed", properties)
		}
		fmt.Fprintf(table, "| %s | %s | not found: %s | | | %d | %.1f |\n", m.Class, m.Name, m.Missed, x.Report.States, x.Report.Seconds)
		return
	}
	if found.Property == "" {
		t.Fatalf("violates %q, want %q", properties, m.Violates)
	}
	b := found.bounds()
	fmt.Fprintf(table, "| %s | %s | %s | %d, %d, %d | %d | %d | %.1f |\n", m.Class, m.Name, strings.Join(properties, ", "),
		b.Edits, b.Crashes, b.Faults, len(found.Steps)+len(found.Other), x.Report.States, x.Report.Seconds)
}

// bounds returns what the story needs: the larger number of its two ways.
func (s *story) bounds() bounds {
	one, other := boundsOf(s.Steps), boundsOf(s.Other)
	return bounds{max(one.Edits, other.Edits), max(one.Crashes, other.Crashes), max(one.Faults, other.Faults)}
}

func boundsOf(steps []step) bounds {
	var b bounds
	for _, s := range steps {
		switch {
		case s.Step == "edit":
			b.Edits++
		case s.Step == "restart":
			b.Crashes++
		case s.Step == "reject", s.Step == "interfere", s.Step == "proceed" && slices.Contains([]string{"fails", "becomes not ready"}, s.Name):
			b.Faults++
		}
	}
	return b
}

// run explores the operator with replacements.
func (s *set) run(t *testing.T, setpoint string, replace []replacement, b bounds) exploration {
	t.Helper()
	operator := filepath.Join(t.TempDir(), "operator.yaml")
	if err := os.WriteFile(operator, []byte(mutated(t, read(t, s.Operator), replace)), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{
		"test", operator, "--only", "explore", "-o", "json", "--stories", t.TempDir(), "--time", "10m",
		"--edits", strconv.Itoa(b.Edits), "--crashes", strconv.Itoa(b.Crashes), "--faults", strconv.Itoa(b.Faults),
	}
	if s.Exploration != "" {
		arguments = append(arguments, filepath.Join("testdata", s.Exploration))
	}
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

// mutated returns a text with replacements. Each has one place.
func mutated(t *testing.T, text string, replace []replacement) string {
	t.Helper()
	for _, r := range replace {
		if n := strings.Count(text, r.Old); n != 1 {
			t.Fatalf("the operator has %d times %q, want it once", n, r.Old)
		}
		text = strings.Replace(text, r.Old, r.New, 1)
	}
	return text
}

// sets returns the files in testdata.
func sets(t *testing.T) []set {
	t.Helper()
	files, err := filepath.Glob("testdata/*.mutants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []set
	for _, file := range files {
		name := filepath.Base(file)
		s := set{name: strings.TrimSuffix(name, ".mutants.yaml")}
		if err := yaml.UnmarshalStrict([]byte(read(t, name)), &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, s)
	}
	return all
}

// read returns a file of testdata.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
