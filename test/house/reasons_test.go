package house

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

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
