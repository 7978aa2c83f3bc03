package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// shown PAGE COMMAND [OLD=NEW…]: the last command printed what the page shows below COMMAND, once
// each OLD is NEW. On the page, … stands for any text.
func shown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: shown PAGE COMMAND [OLD=NEW…]")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", args[0]))
	ts.Check(err)
	all := parsePage(args[0], string(text)).allCommands()
	at := slices.IndexFunc(all, func(each shownCommand) bool { return each.command == args[1] })
	if at < 0 {
		ts.Fatalf("%s does not show the command %s", args[0], args[1])
	}
	got := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	for _, replacement := range args[2:] {
		before, after, _ := strings.Cut(replacement, "=")
		got = strings.ReplaceAll(got, before, after)
	}
	if !outputPattern(all[at].output).MatchString("\n" + normalize(got) + "\n") {
		ts.Fatalf("the command printed\n%s\nand %s shows\n%s", got, args[0], all[at].output)
	}
}

// outputPattern matches an output that contains the lines of a page.
func outputPattern(output string) *regexp.Regexp {
	quoted := regexp.QuoteMeta("\n" + normalize(output) + "\n")
	return regexp.MustCompile(strings.ReplaceAll(quoted, "…", ".*"))
}

// TestEveryShownOutputIsTested finds outputs on pages that no test compares with what the command
// prints.
func TestEveryShownOutputIsTested(t *testing.T) {
	t.Parallel()
	tested := map[string]int{}
	for _, each := range testedPages {
		for _, command := range readPage(t, each.page).commands(each.heading, each.commands...) {
			tested[each.page+" "+command.command]++
		}
	}
	for _, command := range shownByScripts(t) {
		tested[command]++
	}
	pages := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))).In(t)
	for _, path := range append(pages, filepath.Join("..", "..", "README.md")) {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		for _, each := range readPage(t, name).allCommands() {
			command := name + " " + each.command
			if strings.TrimSpace(each.output) != "" && tested[command] == 0 {
				t.Errorf("no test compares the output of %q: add a line \"shown %s '%s'\" to a script of testdata/scripts", each.command, name, each.command)
			}
			tested[command] = max(tested[command]-1, 0)
		}
	}
}

var shownLine = regexp.MustCompile(`(?m)^shown (\S+) '((?:[^']|'')+)'`)

// shownByScripts lists pages and commands that scripts compare.
func shownByScripts(t *testing.T) []string {
	t.Helper()
	scripts := must.Get(filepath.Glob(filepath.Join("testdata", "scripts", "*.txtar"))).In(t)
	var all []string
	for _, path := range scripts {
		text := must.Get(os.ReadFile(path)).In(t)
		for _, found := range shownLine.FindAllStringSubmatch(string(text), -1) {
			all = append(all, found[1]+" "+strings.ReplaceAll(found[2], "''", "'"))
		}
	}
	return all
}
