// Package pages compares what commands print with what pages of the documentation show.
//
// What lives here: how a page shows a command and its output, and the command `shown` of scripts. What must not: how commands run.
// Who calls: the tests in test/e2e and in test/node.
package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Shown is a command of a page and what it prints.
type Shown struct{ Command, Output string }

// Parse returns the commands of a text. A command that ends in | has a second line. Text that is not indented ends an output: an
// empty command stands for it.
func Parse(text string) []Shown {
	var all []Shown
	depth := 0
	for line := range strings.Lines(text) {
		indented := strings.TrimLeft(line, " ")
		spaces := len(line) - len(indented)
		command, prompt := strings.CutPrefix(indented, "$ ")
		last := len(all) - 1
		switch {
		case prompt && spaces >= 4:
			all, depth = append(all, Shown{Command: strings.TrimRight(command, "\n")}), spaces
		case strings.TrimSpace(line) != "" && spaces < max(depth, 4):
			all = append(all, Shown{})
		case last < 0:
		case strings.HasSuffix(all[last].Command, "|"):
			all[last].Command += " " + strings.TrimSpace(line)
		default:
			all[last].Output += line[min(depth, len(line)-1):]
		}
	}
	return all
}

// Is says that the command printed exactly what the page shows.
func (s Shown) Is(printed string) bool {
	text := "\n" + normalize(printed) + "\n"
	return s.pattern().FindString(text) == text
}

// In says that what the command printed contains the lines that the page shows.
func (s Shown) In(printed string) bool {
	return s.pattern().MatchString("\n" + normalize(printed) + "\n")
}

// pattern matches an output that contains the lines of a page, where … stands for any text.
func (s Shown) pattern() *regexp.Regexp {
	quoted := regexp.QuoteMeta("\n" + normalize(s.Output) + "\n")
	return regexp.MustCompile(strings.ReplaceAll(quoted, "…", ".*"))
}

var (
	clock  = regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`)
	age    = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s|m)(\d+s)?\b`)
	moment = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	port   = regexp.MustCompile(`(http://127\.0\.0\.1|localhost):\d+(/[\w-]+)?`)
	digest = regexp.MustCompile(`(seen\\?":\\?")[\w-]+`)
	spaces = regexp.MustCompile(`[ \t]+`)
)

// normalize leaves out what differs from run to run.
func normalize(text string) string {
	text = age.ReplaceAllString(clock.ReplaceAllString(text, "CLOCK"), "AGE")
	text = port.ReplaceAllString(moment.ReplaceAllString(text, "MOMENT"), "HOST")
	text = digest.ReplaceAllString(text, "${1}DIGEST")
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(spaces.ReplaceAllString(line, " ")))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// Compare is the command of scripts: shown PAGE COMMAND [OLD=NEW…]. The last command printed what the page shows below COMMAND,
// once each OLD is NEW.
func Compare(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: shown PAGE COMMAND [OLD=NEW…]")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", args[0]))
	ts.Check(err)
	all := Parse(string(text))
	at := slices.IndexFunc(all, func(each Shown) bool { return each.Command == args[1] })
	if at < 0 {
		ts.Fatalf("%s does not show the command %s", args[0], args[1])
	}
	got := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	for _, replacement := range args[2:] {
		before, after, _ := strings.Cut(replacement, "=")
		got = strings.ReplaceAll(got, before, after)
	}
	if !all[at].In(got) {
		ts.Fatalf("the command printed\n%s\nand %s shows\n%s", got, args[0], all[at].Output)
	}
}
