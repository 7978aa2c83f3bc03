package e2e

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"
)

// same kubectl get …: a poll of that command prints the same as kubectl. With ! before
// it, the poll starts kubectl.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || args[0] != "kubectl" {
		ts.Fatalf("usage: [!] same kubectl get …")
	}
	var theirs, ours output
	var theirErr, ourErr error
	for range 20 { // the age of an object may change between the two
		ours, ourErr = ts.Value(getterKey{}).(*getter).run(ts.MkAbs("."), environ(ts), args[1:])
		if errors.Is(ourErr, errOnlyKubectl) != neg {
			ts.Fatalf("without kubectl: %v\n%s", ourErr, ours)
		}
		if neg {
			return
		}
		theirs, theirErr = run(ts, "", args[0], args[1:]...)
		if (theirErr == nil) == (ourErr == nil) && theirs.stdout.String() == ours.stdout.String() && theirs.stderr.String() == ours.stderr.String() {
			return
		}
		<-time.After(pollInterval)
	}
	ts.Fatalf("kubectl: %v\n%s\n%s\nwithout kubectl: %v\n%s\n%s", theirErr, &theirs.stdout, &theirs.stderr, ourErr, &ours.stdout, &ours.stderr)
}

// TestPollsOfGetStartNoKubectl reads the scripts: a poll whose flags or format are not
// known here takes a fifth of a second of a processor, five times a second.
func TestPollsOfGetStartNoKubectl(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/scripts/*.txtar")
	examples, err2 := filepath.Glob("../../examples/*/script.txtar")
	if err != nil || err2 != nil || len(scripts) == 0 || len(examples) == 0 {
		t.Fatalf("found %d scripts (%v) and %d of examples (%v)", len(scripts), err, len(examples), err2)
	}
	polls := 0
	for _, script := range append(scripts, examples...) {
		for _, args := range pollsOfGet(t, script) {
			polls++
			if _, known := parseGet(args); !known {
				t.Errorf("%s: kubectl %q", script, args)
			}
		}
	}
	if polls < 500 {
		t.Errorf("only %d polls found", polls)
	}
}

// pollsOfGet finds the arguments of kubectl in a script's polls of `kubectl get`.
func pollsOfGet(t *testing.T, script string) (found [][]string) {
	archive, err := txtar.ParseFile(script)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{}
	for line := range strings.Lines(string(archive.Comment)) {
		words := scriptWords(line, variables)
		switch {
		case len(words) > 1 && words[0] == "env":
			name, value, _ := strings.Cut(words[1], "=")
			variables[name] = value
		case len(words) > 1 && (words[0] == "eventually" || words[0] == "stays"):
			at := slices.Index(words, "kubectl")
			if at > 0 && slices.Contains(words[at:], "get") {
				found = append(found, words[at+1:])
			}
		}
	}
	return found
}

// scriptWords splits a line as testscript does.
func scriptWords(line string, variables map[string]string) (words []string) {
	var word strings.Builder
	quoted, begun := false, false
	for part := range strings.SplitSeq(strings.TrimSpace(line), "'") {
		switch {
		case quoted:
			word.WriteString(part)
			begun = true
		case strings.HasPrefix(part, "#"):
			return words
		default:
			part = os.Expand(part, func(name string) string {
				value := cmp.Or(variables[name], name)
				return strings.ReplaceAll(value, " ", "\u00a0")
			})
			for i, piece := range strings.Split(part, " ") {
				if i > 0 {
					if begun || word.Len() > 0 {
						words = append(words, strings.ReplaceAll(word.String(), "\u00a0", " "))
					}
					word.Reset()
					begun = false
				}
				word.WriteString(piece)
			}
		}
		quoted = !quoted
	}
	if begun || word.Len() > 0 {
		words = append(words, strings.ReplaceAll(word.String(), "\u00a0", " "))
	}
	return words
}
