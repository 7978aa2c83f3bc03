// Command reference writes the generated parts of the reference pages in docs: the fields of every
// kind, the conditions, reasons, annotations, states and metrics, the fields of setpoint.yaml and of the requests and responses of hooks,
// and the packages, with a picture of them.
//
// The sentences come from the doc comments of the Go source and from the help texts of metrics. A
// field, constant or metric without one is an error, so that no page can miss it. The command reads
// source only; it imports nothing of Setpoint.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// pages are the pages with generated parts. A part stands between two comments,
// <!-- generated: NAME --> and <!-- end of NAME -->.
func pages() []string {
	return []string{"docs/kinds.md", "docs/kinds-metacontroller.md", "docs/glossary.md", "docs/setpoint-yaml.md", "docs/packages.md",
		"docs/architecture.md", "docs/messages.md"}
}

func run(root string) error {
	source, err := readSource(root)
	if err != nil {
		return err
	}
	parts := map[string]string{}
	var problems problems
	writeKinds(source, parts, &problems)
	reasons := writeGlossary(source, parts, &problems)
	writeMetrics(source, parts, &problems)
	writeProject(source, parts, &problems)
	if err := errors.Join(writePackages(root, parts, &problems), writeMessages(root, parts), writeDocumented(root, reasons)); err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	known := metricNames.FindAllString(parts["metrics"], -1)
	for _, page := range pages() {
		if err := fill(filepath.Join(root, page), parts); err != nil {
			return err
		}
	}
	if len(parts) > 0 {
		return fmt.Errorf("no page has a place for %v", keys(parts))
	}
	return checkMetrics(root, known)
}

// typesModule is what `setpoint types` writes, and no metric.
const typesModule = "setpoint_types"

var metricNames = regexp.MustCompile(`\bsetpoint_[a-z_]+[a-z]\b`)

// checkMetrics finds metrics that a page names and the source does not have.
func checkMetrics(root string, known []string) error {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, name := range metricNames.FindAllString(string(text), -1) {
			if name != typesModule && !slices.Contains(known, name) {
				return fmt.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	return nil
}

// fill replaces the generated parts of a page and takes them out of parts.
func fill(file string, parts map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	page := string(text)
	for _, name := range keys(parts) {
		begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(page, begin)
		if !found {
			continue
		}
		_, after, found := strings.Cut(rest, end)
		if !found {
			return fmt.Errorf("%s: %q has no end", file, name)
		}
		page = before + begin + "\n" + strings.TrimSpace(parts[name]) + "\n\n" + end + after
		delete(parts, name)
	}
	if page == string(text) {
		return nil
	}
	return os.WriteFile(file, []byte(page), 0o644)
}
