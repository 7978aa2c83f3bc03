package setpoint_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// retiredPhrases are words and idioms that Kubernetes, controller-runtime and kubectl have
// other words for, or that a native speaker would not say; docs/glossary.md has
// the words to use. They are refused in comments and in all text a user may read.
var retiredPhrases = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`nobody`, `somebody`, `whoever`, `whom`, `whatsoever`,
	`(?:is|are|was|were|be|been|being|gets?|not|has|have) (?:told|asked)`, `told of`, `tells (?:it|them) apart`,
	`answers?`, `answered`, `answering`, `repl(?:y|ies|ied)`, `verdicts?`,
	`in the care of`, `cares? for`, `cared for`, `takes? care of`, `heeds?`, `heeded`, `heeding`,
	`as it should be`, `as they should be`, `of its own accord`, `more than nothing`, `left to rest`, `left alone`, `leaves? (?:it|them) alone`,
	`what is there`, `what there is`, `is not there`, `are not there`, `not there any more`, `is no more`,
	`strays?`, `seekers?`, `scouts?`, `stances?`, `foresees?`, `foreseen`, `rehears(?:e|es|ed|al|als|ing)`,
	`hands? (?:it|them|over|on|in|out)`, `mend(?:s|ed|ing)?`, `lately`, `rivals?`, `neighbou?rs?`,
	`in thought`, `a stroll`, `office`, `the fleet`, `a fleet`, `of a fleet`, `on the map`, `floors?`, `ground floor`,
	`a whim`, `whimsical`, `hushed`, `hail(?:s|ed)?`, `tidings`, `errands?`, `roster`, `obituary`,
}, "|") + `)\b`)

// retiredNames are parts of identifiers that stand for one of those.
var retiredNames = []string{
	"answer", "answers", "ask", "asked", "asks", "attend", "carer", "cares", "foresee", "hailed", "heed", "heeds", "hush",
	"lacking", "nobody", "obituary", "office", "rehearsal", "rehearse", "rival", "rivals", "roster", "scout", "seeker",
	"seekers", "somebody", "stance", "stray", "strays", "stroll", "tell", "teller", "told", "verdict", "verdicts", "whim", "whose",
}

// exemptText lists what may use these words: the data of examples, libraries, and the
// history of the project.
var exemptText = []string{"CHANGELOG.md", "examples/guitar/", "internal/dashboard/assets/vendor/", "words_test.go", "LICENSE"}

func TestRetiredWords(t *testing.T) {
	for _, f := range parseRepository(t) {
		if exempt(f.path) {
			continue
		}
		for _, group := range f.syntax.Comments {
			checkWords(t, f.position(group), group.Text())
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.BasicLit:
				if x.Kind == token.STRING && !f.test {
					text, _ := strconv.Unquote(x.Value)
					checkWords(t, f.position(x), text)
				}
			case *ast.Ident:
				if word := retiredName(x.Name); word != "" {
					t.Errorf("%s: the name %s: %q is a retired word", f.position(x), x.Name, word)
				}
			}
			return true
		})
	}
}

func TestRetiredWordsInPages(t *testing.T) {
	for _, name := range textFiles(t, ".md", ".html", ".css", ".js", ".mjs", ".py", ".yaml", ".yml", ".sh", "Makefile") {
		if exempt(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			checkWords(t, name+":"+strconv.Itoa(i+1), line)
		}
	}
}

// exempt reports whether a file may use retired words.
func exempt(name string) bool {
	return slices.ContainsFunc(exemptText, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// retiredName returns the first retired part of a camel-cased name; empty if none.
func retiredName(name string) string {
	for _, part := range camelParts.FindAllString(name, -1) {
		if slices.Contains(retiredNames, strings.ToLower(part)) {
			return part
		}
	}
	return ""
}

var camelParts = regexp.MustCompile(`[A-Z]+(?:[^a-z]|$)|[A-Z]?[a-z0-9]+`)

// textFiles returns the files of the repository with these endings, but for what
// folders of the go command and of builds hold.
func textFiles(t *testing.T, endings ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() != "testdata":
			return skipFolder(entry.Name())
		case slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) }):
			found = append(found, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func checkWords(t *testing.T, where, text string) {
	t.Helper()
	for _, found := range retiredPhrases.FindAllString(text, -1) {
		t.Errorf("%s: %q is not a word of the field; the glossary has a better one", where, strings.ToLower(found))
	}
}
