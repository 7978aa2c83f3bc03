// Package mutants shows what the explorations of setpoint test find: operators with one mistake each.
//
// What lives here: small operators, mutants of them and of the examples as replacements in their text, and the property
// that each violates. Who calls: make explore-mutants.
package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMutants(t *testing.T) {
	t.Parallel()
	setpoint, all := build(t), sets(t)
	rows := make([][]string, len(all))
	t.Cleanup(func() { t.Log("\n" + strings.Join(slices.Concat(rows...), "")) })
	for i, s := range all {
		rows[i] = make([]string, len(s.Mutants))
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.explore(t, setpoint, rows[i])
		})
	}
}

// TestWhatTheReportSuggests writes what the report of the right deck suggests into an Exploration, which then finds the deck
// whose first card goes first. Without it, nothing is wrong with that one.
func TestWhatTheReportSuggests(t *testing.T) {
	t.Parallel()
	setpoint, all := build(t), sets(t)
	deck := all[slices.IndexFunc(all, func(s set) bool { return s.name == "deck" })]
	text, err := json.Marshal(map[string]any{
		"apiVersion": "test.setpoint.dev/v1alpha1", "kind": "Exploration", "metadata": map[string]any{"name": "suggested"},
		"invariants": deck.run(t, setpoint, nil, deck.Bounds).Report.Suggested,
	})
	file := filepath.Join(t.TempDir(), "exploration.yaml")
	must.Succeed(t, errors.Join(err, os.WriteFile(file, text, 0o600)))
	deck.With = append(deck.With, file)
	for name, want := range map[string]int{"": 0, "the first card goes first": 1} {
		var replace []replacement
		for _, m := range deck.Mutants {
			if m.Name == name {
				replace = m.Replace
			}
		}
		got := deck.run(t, setpoint, replace, deck.Bounds).Report.Violations
		if len(got) != want || want > 0 && !strings.HasSuffix(got[0].Property, "goes before a-card-0 in its deletion") {
			t.Errorf("%q violates %v, want %d of %s", name, got, want, text)
		}
	}
}

// explore explores the operator within all bounds that its mutants have, and the mutants. Each mutant that is as expected
// yields a row of the table.
func (s *set) explore(t *testing.T, setpoint string, rows []string) {
	t.Helper()
	var within []bounds
	for _, m := range s.Mutants {
		if b := s.boundsOf(m); !slices.Contains(within, b) {
			within = append(within, b)
		}
	}
	for _, b := range within {
		t.Run(fmt.Sprintf("original %d-%d-%d", b.Edits, b.Crashes, b.Faults), func(t *testing.T) {
			t.Parallel()
			x := s.run(t, setpoint, nil, b)
			for _, v := range x.Report.Violations {
				t.Errorf("the operator violates %s", v.Property)
			}
			if x.Report.Cut != "" {
				t.Errorf("not all was explored: %s", x.Report.Cut)
			}
		})
	}
	for i, m := range s.Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			rows[i] = m.check(t, s.run(t, setpoint, m.Replace, s.boundsOf(m)))
		})
	}
}

// check reports a mutant that is not found by the property that it violates, and returns its row of the table.
func (m *mutant) check(t *testing.T, x exploration) string {
	t.Helper()
	var properties []string
	found := story{}
	for _, v := range x.Report.Violations {
		properties = append(properties, v.Property)
		if v.Property == m.property() {
			found = v
		}
	}
	row := strings.ReplaceAll(fmt.Sprintf("| %s | %s | %s ", m.Class, m.Name, m.Expected), "|  ", "| ")
	if m.Missed != "" {
		if len(properties) > 0 {
			t.Errorf("found by %q: it is no longer missed", properties)
		}
		return fmt.Sprintf("%s| not found: %s | | | %d | %.1f |\n", row, m.Missed, x.Report.States, x.Report.Seconds)
	}
	if found.Property == "" {
		t.Fatalf("violates %q, want %q", properties, m.property())
	}
	b := found.bounds()
	return fmt.Sprintf("%s| %s | %d, %d, %d | %d | %d | %.1f |\n", row, strings.Join(properties, ", "),
		b.Edits, b.Crashes, b.Faults, len(found.Steps)+len(found.Other), x.Report.States, x.Report.Seconds)
}

// property returns what the mutant violates.
func (m *mutant) property() string { return cmp.Or(m.Violates, m.Expected) }

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
