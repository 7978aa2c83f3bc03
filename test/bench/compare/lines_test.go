package main

import "testing"

func TestCountLines(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want int
	}{
		"a.go":      {"// Package a.\npackage a\n\n/* no\nno */\nvar x = `one\ntwo` // yes\n", 3},
		"marker.go": {"package a\n\n// +kubebuilder:rbac:verbs=get\n// T is one.\ntype T struct{}\n", 3},
		"a.py":      {"\"\"\"One\n\ntwo.\"\"\"\n\nimport os  # yes\n# no\ndef f():\n    \"\"\"No.\"\"\"\n    return 1\n", 3},
		"long.py":   {"\"\"\"\nNo.\n\"\"\"\nx = 1\n", 1},
		"a.yaml":    {"# no\na: 1\n\n  - b # yes\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := countLines(name, []byte(test.text)); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// TestSourcesAreThere: a file that moved would be missed only after five minutes.
func TestSourcesAreThere(t *testing.T) {
	for _, c := range contenders() {
		for _, files := range [][]string{c.source.program, c.source.crd, c.source.scaffolded, c.source.generated} {
			if lines, err := countFiles("../../..", files); err != nil || len(files) > 0 && lines == 0 {
				t.Errorf("%s: %d lines in %v, %v", c.name, lines, files, err)
			}
		}
	}
}
