package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// written PAGE HEADING DIR: writes the files that a section of a page shows to a directory.
func written(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: written PAGE HEADING DIR")
	}
	files := sectionOf(ts, args[0], args[1]).files(args[1])
	if len(files) == 0 {
		ts.Fatalf("%s shows no files below %s", args[0], args[1])
	}
	for name, text := range files {
		ts.Check(os.WriteFile(ts.MkAbs(filepath.Join(args[2], name)), []byte(text), 0o600))
	}
}

// diffBlock is a block of code with lines to replace.
var diffBlock = regexp.MustCompile("(?ms)^```diff\n(.*?\n)```$")

// changed PAGE HEADING FILE: replaces the lines with a minus in the blocks of a section by those with a plus. The
// indentation of the file stays.
func changed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: changed PAGE HEADING FILE")
	}
	blocks := diffBlock.FindAllStringSubmatch(sectionOf(ts, args[0], args[1]).sections[args[1]], -1)
	if len(blocks) == 0 {
		ts.Fatalf("%s shows no diff below %s", args[0], args[1])
	}
	text := ts.ReadFile(args[2])
	for _, block := range blocks {
		var from, to []string
		for line := range strings.Lines(block[1]) {
			if line, removed := strings.CutPrefix(line, "-"); removed {
				from = append(from, strings.TrimSpace(line))
			} else if line, added := strings.CutPrefix(line, "+"); added {
				to = append(to, strings.TrimSpace(line))
			}
		}
		if n := strings.Count(text, strings.Join(from, "\n")); n != 1 {
			ts.Fatalf("%s has %d times %q", args[2], n, from)
		}
		text = strings.Replace(text, strings.Join(from, "\n"), strings.Join(to, "\n"), 1)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text), 0o600))
}

// sectionOf returns a page that has a section.
func sectionOf(ts *testscript.TestScript, name, heading string) page {
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	ts.Check(err)
	p := parsePage(name, string(text))
	if p.sections[heading] == "" {
		ts.Fatalf("%s has no section %s", name, heading)
	}
	return p
}
