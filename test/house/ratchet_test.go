package house

import (
	"cmp"
	"flag"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits that the house is on its way to. What is above one stands in ratchet.txt with its number of today, which may
// only go down.
const (
	maxPackageLines  = 3000 // without comments and blank lines
	maxPackageFiles  = 25
	maxMethods       = 40
	maxColumns       = 140
	maxPercentUpward = 10 // of the arrows between the files of a package, or two arrows
)

// totals limit sums that have a limit of their own.
var totals = map[string]int{
	"product lines":      92000,
	"test lines":         80000,
	"lines of test/node": 1500, // with its tests
	"words of docs":      30000,
}

// parts limit the lines of folders together, with comments and blank lines.
var parts = []struct {
	name    string
	limit   int
	folders []string
}{
	{"lines of the kernel", 22000, []string{
		"internal/apply", "internal/cache", "internal/call", "internal/call/webhook", "internal/controller/...", "internal/failure",
		"internal/lasthandled", "internal/object", "internal/plan/...", "internal/queue", "internal/related", "internal/trace",
	}},
	{"lines of the handler loop", 4900, []string{"internal/controller/handler/...", "internal/controller/trigger", "internal/lasthandled"}},
	{"lines of the composite loop", 3500, []string{"internal/controller/composite", "internal/controller/guard"}},
	{"lines of the manager", 10500, []string{"internal/manager/..."}},
	{"lines of inspection and the dashboard", 14000, []string{"internal/dashboard/...", "internal/inspect/..."}},
}

// fileLimits are those of packages with another limit than maxPackageFiles.
var fileLimits = map[string]int{".": 16}

const ratchetFile = "test/house/ratchet.txt"

var lower = flag.Bool("lower", false, "write the numbers that have gone down to "+ratchetFile)

// TestRatchet measures the repository. Numbers above their limit may not be above the one in ratchet.txt, and numbers that
// have gone down are written there: go test ./test/house -run Ratchet -lower.
func TestRatchet(t *testing.T) {
	recorded, measured := readRatchet(t), measureHouse(t)
	for name, now := range measured {
		switch was, known := recorded[name]; {
		case now > was && (known || !*lower):
			t.Errorf("%s: %d is above its limit, and it was %d: it only goes down", name, now, was)
		case now < was && !*lower:
			t.Errorf("%s: %d, and ratchet.txt has %d: go test ./test/house -run Ratchet -lower", name, now, was)
		}
	}
	for name := range recorded {
		if _, still := measured[name]; !still && !*lower {
			t.Errorf("%s is within its limit now: go test ./test/house -run Ratchet -lower", name)
		}
	}
	if *lower && !t.Failed() {
		writeRatchet(t, measured)
	}
}

// measureHouse returns what is above its limit.
func measureHouse(t *testing.T) map[string]int {
	all := handWritten(parseRepository(t))
	lines, files, methods := map[string]int{}, map[string][]goFile{}, map[string]int{}
	above, partLines := map[string]int{}, map[string]int{}
	wide, product, tests, node := 0, 0, 0, 0
	for _, f := range all {
		text := must.Get(os.ReadFile(f.path)).In(t)
		switch {
		case strings.HasPrefix(f.path, "test/node/"):
			node += codeLines(text)
		case f.test:
			tests += strings.Count(string(text), "\n")
		}
		if f.test {
			continue
		}
		wide += wideLines(string(text))
		if !f.shipped() {
			continue
		}
		count := codeLines(text)
		lines[f.pkg] += count
		for _, part := range parts {
			if matchesAny(part.folders, f.pkg) {
				partLines[part.name] += strings.Count(string(text), "\n")
			}
		}
		if f.product() {
			product += count
		}
		files[f.pkg] = append(files[f.pkg], f)
		for _, fn := range functionsOf(f) {
			if typ, _, method := strings.Cut(functionName(fn), "."); method {
				methods[f.pkg+"."+typ]++
			}
		}
	}
	limit := func(name string, got, limit int) {
		if got > limit {
			above[name] = got
		}
	}
	for pkg, count := range lines {
		limit("lines of "+pkg, count, maxPackageLines)
		limit("files of "+pkg, len(files[pkg]), cmp.Or(fileLimits[pkg], maxPackageFiles))
		up, total := upwardArrows(files[pkg])
		limit("upward arrows of "+pkg, up, max(2, total*maxPercentUpward/100))
	}
	for _, part := range parts {
		limit(part.name, partLines[part.name], part.limit)
	}
	for typ, count := range methods {
		limit("methods of "+typ, count, maxMethods)
	}
	limit("lines over "+strconv.Itoa(maxColumns)+" columns", wide, 0)
	limit("product lines", product, totals["product lines"])
	limit("test lines", tests, totals["test lines"])
	limit("lines of test/node", node, totals["lines of test/node"])
	limit("words of docs", docWords(t), totals["words of docs"])
	return above
}

// product tells the root module's code from the examples, the control plane and the tools.
func (f goFile) product() bool {
	for _, folder := range []string{"controlplane/", "examples/", "test/", "tools/"} {
		if strings.HasPrefix(f.path, folder) {
			return false
		}
	}
	return !f.test
}

// codeLines counts lines with code: no blank lines, no comments.
func codeLines(text []byte) int {
	var s scanner.Scanner
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			if tok != token.SEMICOLON { // also those that the scanner inserts
				lines[first+i] = true
			}
		}
	}
}

// wideLines counts the lines over the limit. A marker of a generator cannot be broken.
func wideLines(text string) int {
	wide := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "// +") && len([]rune(strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\n"))) > maxColumns {
			wide++
		}
	}
	return wide
}

// generatedPages are written by make gen, or by tests that print what they compare.
var generatedPages = []string{"kinds.md", "kinds-metacontroller.md", "flags.md", "glossary.md", "setpoint-yaml.md", "kopf-names.md", "packages.md", "messages.md"}

var generatedPart = regexp.MustCompile(`(?s)<!-- generated: .*?<!-- end of `)

// docWords counts the words that are written by hand in the README and the folder docs.
func docWords(t *testing.T) int {
	words := 0
	for _, page := range markdownFiles(t) {
		name, isDoc := strings.CutPrefix(page, "docs/")
		if page != "README.md" && !isDoc || slices.Contains(generatedPages, name) {
			continue
		}
		text := must.Get(os.ReadFile(page)).In(t)
		words += len(strings.Fields(generatedPart.ReplaceAllString(string(text), "")))
	}
	return words
}

// upwardArrows counts the arrows between the files of a package, from a file to one whose names it uses, and how many of
// them run back up when the files are ordered by who uses whom.
func upwardArrows(files []goFile) (up, total int) {
	owners := declarations(files)
	arrows := map[[2]string]bool{}
	for _, f := range files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if !ok || name == f.syntax.Name { // The name of package main is no call of the function.
				return true
			}
			if owner, ours := owners[name.Name]; ours && owner != f.path && owner != "" {
				arrows[[2]string{f.path, owner}] = true
			}
			return true
		})
	}
	place := orderFiles(files, arrows)
	for a := range arrows {
		if place[a[0]] > place[a[1]] {
			up++
		}
	}
	return up, len(arrows)
}

// declarations maps the names that a package declares to their file; a name that two files declare, such as a method of two
// types, to none.
func declarations(files []goFile) map[string]string {
	owners := map[string]string{}
	declare := func(name, file string) {
		if was, twice := owners[name]; name == "_" || twice && was != file {
			file = ""
		}
		owners[name] = file
	}
	for _, f := range files {
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				declare(d.Name.Name, f.path)
			case *ast.GenDecl:
				for _, name := range declaredNames(d) {
					declare(name, f.path)
				}
			}
		}
	}
	return owners
}

func declaredNames(d *ast.GenDecl) []string {
	var names []string
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, s.Name.Name)
		case *ast.ValueSpec:
			for _, n := range s.Names {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// orderFiles orders files so that few arrows run back up: it takes files that use no other to the end, files that no other uses
// to the front, and else the file with the most arrows out less arrows in.
func orderFiles(files []goFile, arrows map[[2]string]bool) map[string]int {
	var left []string
	for _, f := range files {
		left = append(left, f.path)
	}
	slices.Sort(left)
	place := map[string]int{}
	front, back := 0, len(left)
	for len(left) > 0 {
		out, in := degrees(left, arrows)
		next := slices.MaxFunc(left, func(a, b string) int { return cmp.Compare(out[a]-in[a], out[b]-in[b]) })
		if i := slices.IndexFunc(left, func(f string) bool { return out[f] == 0 }); i >= 0 {
			next = left[i]
			back--
			place[next] = back
		} else {
			place[next] = front
			front++
		}
		left = slices.DeleteFunc(left, func(f string) bool { return f == next })
	}
	return place
}

// degrees counts the arrows among some files.
func degrees(files []string, arrows map[[2]string]bool) (out, in map[string]int) {
	out, in = map[string]int{}, map[string]int{}
	for a := range arrows {
		if slices.Contains(files, a[0]) && slices.Contains(files, a[1]) {
			out[a[0]]++
			in[a[1]]++
		}
	}
	return out, in
}

func readRatchet(t *testing.T) map[string]int {
	text := must.Get(os.ReadFile(ratchetFile)).In(t)
	recorded := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^(\d+)\t(.+)$`).FindAllStringSubmatch(string(text), -1) {
		recorded[row[2]], _ = strconv.Atoi(row[1])
	}
	return recorded
}

func writeRatchet(t *testing.T, measured map[string]int) {
	var text strings.Builder
	text.WriteString("# What is above its limit in ratchet_test.go. These numbers only go down.\n")
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		fmt.Fprintf(&text, "%d\t%s\n", measured[name], name)
	}
	must.Succeed(t, os.WriteFile(ratchetFile, []byte(text.String()), 0o600))
}
