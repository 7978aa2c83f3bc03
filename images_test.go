package setpoint_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Fault G14: what a documented Dockerfile copies from the repository is not excluded from
// the build, and is what a documented make builds.
func TestImagesCanBeBuilt(t *testing.T) {
	ignored, err := os.ReadFile(".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	copied := regexp.MustCompile(`(?m)^COPY (bin/\S+) `)
	found := 0
	for _, page := range markdownFiles(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range copied.FindAllStringSubmatch(string(text), -1) {
			found++
			if excluded(string(ignored), c[1]) {
				t.Errorf("%s copies %s, which .dockerignore excludes", page, c[1])
			}
			if !strings.Contains(string(text), "make build") {
				t.Errorf("%s copies %s and does not say that `make build` makes it", page, c[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page describes an image: is the expression right?")
	}
}

// Fault G14: Setpoint's manifests in the docs have one namespace.
func TestManifestsShareANamespace(t *testing.T) {
	other := regexp.MustCompile(`name: setpoint(?:-admission)?, namespace: (\S+?)[,}]`)
	found := 0
	for _, page := range markdownFiles(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range other.FindAllStringSubmatch(string(text), -1) {
			found++
			if m[1] != "setpoint-system" {
				t.Errorf("%s puts Setpoint into the namespace %s; it is setpoint-system everywhere", page, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page has such a manifest: is the expression right?")
	}
}

// excluded reads the patterns as far as this repository uses them: the last that matches
// decides, and ! takes one back.
func excluded(patterns, file string) bool {
	out := false
	for line := range strings.Lines(patterns) {
		line = strings.TrimSpace(line)
		pattern, back := strings.CutPrefix(line, "!")
		pattern = strings.Trim(pattern, "/")
		if whole, _ := filepath.Match(pattern, file); whole || strings.HasPrefix(file, pattern+"/") {
			out = !back
		}
	}
	return out
}
