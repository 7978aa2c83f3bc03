package scripttest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
)

const requestOfPage = `{"time":"2026-01-02T03:04:05.678Z","parent":{"metadata":{"name":"a","creationTimestamp":"2026-01-01T00:00:00Z"},` +
	`"spec":{"image":"busybox:1.37"}},"children":{"Pod.v1":{"a":{"status":{"phase":"Running"}}}}}`

// example is code of the page, and what it shows below.
type example struct {
	language language
	sources  map[string]string
	shown    string
}

// TestPage runs every example of docs/inline.md, and compares the log, the response or the error
// where the page shows one.
func TestPage(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/inline.md")).In(t)
	examples := examplesOf(string(page))
	if len(examples) < 10 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	for _, e := range examples {
		got := e.run()
		failed := strings.HasPrefix(got, "error: ")
		got = strings.TrimPrefix(got, "error: ")
		if e.shown == "" && failed || e.shown != "" && got != e.shown {
			t.Errorf("%v\ngives\n%s\nand not\n%s", e.sources, got, e.shown)
		}
	}
}

func (e *example) run() string {
	entry := "sync" + e.language.ending
	p, err := e.language.engine.Load(script.Files{Entry: entry, Sources: e.sources})
	if err != nil {
		return "error: " + err.Error()
	}
	var log strings.Builder
	response, err := p.Call(&script.Call{
		Function: "sync", Request: []byte(requestOfPage), Time: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Seed: 1,
		Log: func(line string) { log.WriteString("log: " + line + "\n") },
	})
	if err != nil {
		return "error: " + err.Error()
	}
	return log.String() + string(response)
}

// examplesOf reads the blocks of code, each with the name of its file in the first line. A file that is not
// the entry belongs to the example before it; indented lines after one are what it shows.
func examplesOf(page string) (examples []*example) {
	block := regexp.MustCompile("(?ms)^```(js|starlark)\n(?://|#) (\\S+)\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?")
	for _, found := range block.FindAllStringSubmatch(page, -1) {
		l := languages[0]
		if found[1] == "starlark" {
			l = languages[1]
		}
		source := "// " + found[2] + "\n" + found[3]
		if l.ending == ".star" {
			source = "# " + found[2] + "\n" + found[3]
		}
		if found[2] != "sync"+l.ending {
			examples[len(examples)-1].sources[found[2]] = source
			continue
		}
		shown := strings.TrimSpace(strings.ReplaceAll(found[4], "    ", ""))
		examples = append(examples, &example{language: l, sources: map[string]string{found[2]: source}, shown: shown})
	}
	return examples
}
