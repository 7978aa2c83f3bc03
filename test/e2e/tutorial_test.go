package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTutorial does what docs/getting-started.md says, once for each language: it writes the files of
// the page, runs setpoint dev, and compares what kubectl prints with what the page shows.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page := readTutorial(t)
	webhook := []string{"## The kind and an object", "### A webhook in Python"}
	for name, sections := range map[string][]string{
		"Python":     webhook,
		"JavaScript": append(webhook[:2:2], "### A webhook in JavaScript"),
		"Go":         {"## The kind and an object", "### A program in Go"},
	} {
		files := map[string]string{}
		for _, heading := range sections {
			maps.Copy(files, page.files(heading))
		}
		t.Run(name, func(t *testing.T) {
			c := startTutorial(t, files)
			for _, shown := range page.commands("## Run it") {
				if name != "Go" || !strings.Contains(shown.command, "compositecontrollers") {
					c.expect(shown)
				}
			}
		})
	}
}

// startTutorial writes the files into a folder and runs them.
func startTutorial(t *testing.T, files map[string]string) *testCluster {
	t.Helper()
	dir := t.TempDir()
	if _, program := files["main.go"]; program {
		addModule(t, dir, files)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "teams"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(filepath.Join("teams", name), text)
	}
	c := &testCluster{t: t, dir: dir, kubeconfig: filepath.Join(dir, "teams.kubeconfig")}
	start(t, filepath.Join(dir, "dev.log"), os.Getenv("SETPOINT"),
		"dev", "--ui-address", "", "--kubeconfig", c.kubeconfig, filepath.Join(dir, "teams"))
	return c
}

// addModule makes the program a module beside this repository, as `go get` would make one that
// requires a release of it.
func addModule(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(string(text))
	files["go.mod"] = "module teams\n\n" + version + "\n"
	work := fmt.Sprintf("%s\n\nuse (\n\t./teams\n\t%s\n)\n", version, root)
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shownCommand is a command of a page and what it prints.
type shownCommand struct{ command, output string }

var (
	age    = regexp.MustCompile(`\b\d+(ms|s|m)\b`)
	spaces = regexp.MustCompile(`[ \t]+`)
)

// normalize leaves out what differs from run to run.
func normalize(text string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(age.ReplaceAllString(text, "AGE"), " "))
}

// expect waits until a command prints what the page shows.
func (c *testCluster) expect(shown shownCommand) {
	c.t.Helper()
	c.until(3*time.Minute, func() error {
		got, err := c.try("", strings.Fields(shown.command)[1:]...)
		if err == nil && normalize(got) != normalize(shown.output) {
			err = fmt.Errorf("%s prints\n%s\nand the page shows\n%s", shown.command, got, shown.output)
		}
		return err
	})
}

// tutorial is a page by its headings.
type tutorial map[string]string

func readTutorial(t *testing.T) tutorial {
	t.Helper()
	text, err := os.ReadFile("../../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	page, heading := tutorial{}, ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "##") {
			heading = strings.TrimSpace(line)
		}
		page[heading] += line
	}
	return page
}

// files are the code blocks of a section whose names stand before them: **`crd.yaml`**.
func (page tutorial) files(heading string) map[string]string {
	block := regexp.MustCompile("(?ms)^\\*\\*`([\\w.]+)`\\*\\*[^`]*?^```\\w+\n(.*?)^```$")
	files := map[string]string{}
	for _, found := range block.FindAllStringSubmatch(page[heading], -1) {
		files[found[1]] = found[2]
	}
	return files
}

// commands are the kubectl commands of a section with their output.
func (page tutorial) commands(heading string) []shownCommand {
	var all []shownCommand
	for line := range strings.Lines(page[heading]) {
		text, indented := strings.CutPrefix(line, "    ")
		command, prompt := strings.CutPrefix(text, "$ kubectl")
		switch {
		case indented && prompt:
			all = append(all, shownCommand{command: "kubectl" + command})
		case indented && strings.HasPrefix(text, "$ "), strings.TrimSpace(line) != "" && !indented:
			all = append(all, shownCommand{}) // what follows is no output of kubectl
		case len(all) > 0:
			all[len(all)-1].output += text
		}
	}
	return slices.DeleteFunc(all, func(shown shownCommand) bool { return shown.command == "" })
}
