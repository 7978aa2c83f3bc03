package house

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// Every relative link of a page leads to a file that is there, and to a heading of it
// if it names one.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, page := range markdownFiles(t) {
		for _, link := range linksOf(t, page) {
			file, heading, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, link, err)
				continue
			}
			if heading != "" && strings.HasSuffix(target, ".md") && !headingsOf(t, target)[heading] {
				t.Errorf("%s: the link %s names a heading that %s does not have", page, link, target)
			}
		}
	}
}

// markdownFiles are the files of this repository for people.
func markdownFiles(t *testing.T) []string {
	t.Helper()
	var found []string
	must.Succeed(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipFolder(entry.Name())
		case strings.HasSuffix(name, ".md"):
			found = append(found, name)
		}
		return nil
	}))
	return found
}

// linksOf are the links of a page that lead to places of this repository.
func linksOf(t *testing.T, page string) []string {
	t.Helper()
	target := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	var links []string
	for _, line := range prose(t, page) {
		for _, match := range target.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
				links = append(links, match[1])
			}
		}
	}
	return links
}

// headingsOf are the names by which links can name the headings of a page: in small
// letters, without punctuation, with dashes for spaces.
func headingsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	headings := map[string]bool{}
	for _, line := range prose(t, page) {
		if text := strings.TrimLeft(line, "#"); text != line {
			name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			headings[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return headings
}

// prose are the lines of a page, but for its code.
func prose(t *testing.T, page string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(page)).In(t)
	code := regexp.MustCompile("`[^`]*`")
	var lines []string
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "    ") {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "[`") {
			lines[i] = code.ReplaceAllString(line, "")
		}
	}
	return lines
}

// Fault G14: Setpoint's manifests in the docs have one namespace.
func TestManifestsShareANamespace(t *testing.T) {
	other := regexp.MustCompile(`name: setpoint(?:-admission)?, namespace: (\S+?)[,}]`)
	found := 0
	for _, page := range markdownFiles(t) {
		text := must.Get(os.ReadFile(page)).In(t)
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

// TestRegressionsHaveTests reads test/faults.md: each row names a fault that was seen once and
// the tests that hold its fix. A test that is renamed takes its row along.
func TestRegressionsHaveTests(t *testing.T) {
	page := must.Get(os.ReadFile("test/faults.md")).In(t)
	row := regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| .* \| ([^|]*) \|$`)
	quoted := regexp.MustCompile("`([^`:]+)(?:: (\\w+))?`")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if lines := strings.Count(string(page), "\n| ") - 2; lines != len(rows) {
		t.Errorf("%d of %d rows have the form `| H1 | what was seen | tests |`", len(rows), lines)
	}
	for _, r := range rows {
		tests := quoted.FindAllStringSubmatch(r[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test: %q", r[1], r[2])
		}
		for _, named := range tests {
			source, err := os.ReadFile(named[1])
			if err != nil {
				t.Errorf("%s: %v", r[1], err)
			} else if named[2] != "" && !declares(string(source), named[2]) {
				t.Errorf("%s: %s has no %s", r[1], named[1], named[2])
			}
		}
	}
}

// declares reports whether a test file declares a test or a class of tests, in Go or Python.
func declares(source, name string) bool {
	return strings.Contains(source, "func "+name+"(") || strings.Contains(source, "def "+name+"(") || strings.Contains(source, "class "+name+"(")
}

// Every reason of a condition or an event has a heading in the glossary, to which `setpoint why` links, and every such
// heading a reason.
func TestReasonsHaveHeadings(t *testing.T) {
	t.Parallel()
	reasons := map[string]bool{}
	for _, f := range parseRepository(t) {
		// The errors between processes, and the hook of tests, have reasons of their own.
		if f.shipped() && !strings.HasPrefix(f.pkg, "examples/") && f.pkg != "internal/inspect/wire" && !strings.HasSuffix(f.pkg, "/hooktest") {
			reasonsIn(t, f, reasons)
		}
	}
	page := string(must.Get(os.ReadFile("docs/glossary.md")).In(t))
	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(page, -1) {
		if !reasons[heading[1]] {
			t.Errorf("docs/glossary.md has the heading %q, which is no reason: make gen removes it", heading[1])
		}
		if headings[heading[1]] {
			t.Errorf("docs/glossary.md has the heading %q twice", heading[1])
		}
		headings[heading[1]] = true
	}
	for reason := range reasons {
		if !headings[reason] {
			t.Errorf("docs/glossary.md has no heading for the reason %q: make gen adds it", reason)
		}
	}
}

var reasonName = regexp.MustCompile(`^([rR]eason|Event)[A-Z]`)

// reasonsIn adds the constants of a file that are reasons, and finds reasons without a constant.
func reasonsIn(t *testing.T, f goFile, reasons map[string]bool) {
	t.Helper()
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				reasonsOf(n, reasons)
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "WithReason" && camelCase(n.Args[0]) != "" {
				t.Errorf("%s: the reason has no constant", f.position(n))
			}
		case *ast.CompositeLit:
			if made, ok := n.Type.(*ast.Ident); ok && made.Name == "conditionState" && len(n.Elts) == 3 && camelCase(n.Elts[1]) != "" {
				t.Errorf("%s: the reason has no constant", f.position(n))
			}
		}
		return true
	})
}

func reasonsOf(block *ast.GenDecl, reasons map[string]bool) {
	for _, spec := range block.Specs {
		spec := spec.(*ast.ValueSpec)
		listed := strings.HasPrefix(block.Doc.Text(), "Reasons of") || reasonName.MatchString(spec.Names[0].Name)
		if listed && spec.Type == nil && len(spec.Values) == 1 && camelCase(spec.Values[0]) != "" {
			reasons[camelCase(spec.Values[0])] = true
		}
	}
}

// camelCase is the value of a literal that may be a reason, or "".
func camelCase(e ast.Expr) string {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(basic.Value)
	return regexp.MustCompile(`^[A-Z][A-Za-z]+$`).FindString(value)
}
