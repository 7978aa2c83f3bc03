package e2e

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/pages"
)

var updatePages = flag.Bool("update-pages", false, "write what commands print into the pages that show it")

// TestTutorial does what docs/getting-started.md says, with the logic in the manifest and in a webhook: it writes the
// files of the page, runs setpoint dev, and compares what the commands print with what the page shows. With the logic in
// the manifest it also breaks what the page breaks, and opens the dashboard. -v prints when each command had its output.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/getting-started.md")
	oneFile, webhook := page.files("## One file"), page.files("## A webhook")
	webhook["teams.yaml"] = replaceHooks(t, oneFile["teams.yaml"], webhook["teams.yaml"])
	for name, files := range map[string]map[string]string{"One file": oneFile, "Python": webhook} {
		t.Run(name, func(t *testing.T) {
			runInParallel(t)
			c, began := startTutorial(t, files), time.Now()
			sections := testedPages[:tutorialSections]
			if name != "One file" {
				sections = sections[:1]
			}
			for _, section := range sections {
				for _, shown := range page.commands(section.heading, section.commands...) {
					c.expect(shown)
					t.Logf("after %4.1fs: %s", time.Since(began).Seconds(), shown.command)
				}
			}
			c.openDashboard("teams")
			t.Logf("after %4.1fs: the dashboard", time.Since(began).Seconds())
		})
	}
}

// replaceHooks gives the controller of some manifests other hooks.
func replaceHooks(t *testing.T, manifests, hooks string) string {
	t.Helper()
	before, rest, found := strings.Cut(manifests, "  hooks:\n")
	_, after, ends := strings.Cut(rest, "---\n")
	if !found || !ends {
		t.Fatalf("no controller with hooks in\n%s", manifests)
	}
	return before + hooks + "---\n" + after
}

// testedPages lists the sections whose commands TestTutorial and TestPages run, by the first words of
// the commands. Scripts compare other commands with their outputs (see shown).
var testedPages = []struct {
	page, heading string
	examples      []string
	commands      []string
}{
	{"docs/getting-started.md", "## Run it", nil, []string{"kubectl"}},
	{"docs/getting-started.md", "## Break it", nil, []string{"kubectl", "for", "sed", "mv", "setpoint"}},
	{"README.md", "## Try it", []string{"immortalcontainer"}, []string{"kubectl", "sed"}},
	{"docs/operate.md", "## In a terminal", []string{"guitar", "immortalcontainer"}, []string{"setpoint"}},
	{"docs/change-logic.md", "## Plan", []string{"blue-green"}, []string{"setpoint"}},
}

// tutorialSections is how many of them, at the beginning, TestTutorial runs.
const tutorialSections = 2

// TestPages runs the commands of other pages. What a page shows is what they print.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, each := range testedPages[tutorialSections:] {
		t.Run(each.page, func(t *testing.T) {
			runInParallel(t)
			c := startExamples(t, each.examples...)
			c.writeShop()
			for _, shown := range readPage(t, each.page).commands(each.heading, each.commands...) {
				c.expect(shown)
			}
		})
	}
}

// runInParallel is for tests that write into no page.
func runInParallel(t *testing.T) {
	if !*updatePages {
		t.Parallel()
	}
}

// pageCluster is a control plane for one page.
type pageCluster struct {
	*testCluster

	// workDir is where the commands run, log what setpoint dev prints.
	workDir, log string
}

// startTutorial writes the files into a folder and runs them.
func startTutorial(t *testing.T, files map[string]string) *pageCluster {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "teams"), 0o700))
	for name, text := range files {
		writeFile(t, filepath.Join(dir, "teams", name), text)
	}
	apply := filepath.Join(dir, "teams")
	if _, folder := files["setpoint.yaml"]; !folder {
		apply = filepath.Join(apply, "teams.yaml")
	}
	c := startPage(t, dir, apply)
	c.workDir = filepath.Join(dir, "teams")
	return c
}

// startExamples runs examples, and the commands in the root of the repository.
func startExamples(t *testing.T, names ...string) *pageCluster {
	t.Helper()
	root := repositoryRoot(t)
	var folders []string
	for _, name := range names {
		folders = append(folders, filepath.Join(root, "examples", name))
	}
	c := startPage(t, t.TempDir(), folders...)
	c.workDir = root
	return c
}

func startPage(t *testing.T, dir string, folders ...string) *pageCluster {
	t.Helper()
	c := &pageCluster{testCluster: &testCluster{t: t, dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}, workDir: dir}
	c.log = filepath.Join(dir, "dev.log")
	start(t, c.log, os.Getenv("SETPOINT"), append([]string{"dev", "--kubeconfig", c.kubeconfig}, folders...)...)
	c.until(5*time.Minute, func() error {
		text, err := os.ReadFile(c.log)
		// On a busy machine a process may be ready later.
		if err == nil && !strings.Contains(string(text), "Ctrl-C stops everything") {
			err = fmt.Errorf("setpoint dev has not started everything")
		}
		return err
	})
	return c
}

// openDashboard opens the address that setpoint dev prints, as a browser does, and waits for a text on the page.
func (c *pageCluster) openDashboard(text string) {
	c.t.Helper()
	printed := string(must.Get(os.ReadFile(c.log)).In(c.t))
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+`).FindString(printed)
	browser := &http.Client{Jar: must.Get(cookiejar.New(nil)).In(c.t)}
	c.until(waitTimeout, func() error {
		response, err := browser.Get(address)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(page), text) {
			err = fmt.Errorf("%s: %s without %q:\n%s", address, response.Status, text, page)
		}
		return err
	})
}

// writeShop is for docs/change-logic.md: the example with another image.
func (c *pageCluster) writeShop() {
	c.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "blue-green", "example.yaml"))).In(c.t)
	writeFile(c.t, filepath.Join(c.dir, "shop.yaml"), strings.ReplaceAll(string(text), "nginx:1.27", "nginx:1.28"))
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	return must.Get(filepath.Abs(filepath.Join("..", ".."))).In(t)
}

// expect waits until a command prints what the page shows. One that changes something runs once.
func (c *pageCluster) expect(shown shownCommand) {
	c.t.Helper()
	var got string
	check := func() error {
		got = c.print(shown.command)
		if !(pages.Shown{Output: shown.output}).Is(got) {
			return fmt.Errorf("%s prints\n%s\nand %s shows\n%s\n-update-pages corrects it", shown.command, got, shown.page, shown.output)
		}
		return nil
	}
	switch {
	case *updatePages:
		<-time.After(5 * time.Second) // long enough for a person to look
		if check() != nil {
			shown.update(c.t, got)
		}
	case strings.Contains(shown.command, " delete "):
		c.until(waitTimeout, func() error {
			err := check()
			if err != nil && !strings.Contains(got, "(NotFound)") {
				c.t.Fatal(err)
			}
			return err // The object may not exist yet.
		})
	default:
		c.until(waitTimeout, check)
	}
}

// print is what a command prints, errors included: some pages show one.
func (c *pageCluster) print(command string) string {
	cmd := exec.CommandContext(c.t.Context(), "sh", "-c", command)
	cmd.Dir = c.workDir
	if strings.Contains(command, "shop.yaml") {
		cmd.Dir = c.dir
	}
	// Processes are found by the kubeconfig, and not by the variable of the dev loop around the tests.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "SETPOINT_INSPECT_DIR=")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// shownCommand is a command of a page and what it prints.
type shownCommand struct{ page, command, output string }

// update writes what a command prints into its page.
func (shown shownCommand) update(t *testing.T, got string) {
	t.Helper()
	file := filepath.Join(repositoryRoot(t), shown.page)
	text := must.Get(os.ReadFile(file)).In(t)
	page := strings.Replace(string(text), indent(shown.output), indent(got), 1)
	must.Succeed(t, os.WriteFile(file, []byte(page), 0o600))
}

func indent(text string) string {
	var indented strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if strings.TrimSpace(line) != "" {
			line = "    " + strings.TrimRight(line, " \n") + "\n"
		}
		indented.WriteString(line)
	}
	return indented.String()
}

// page is a page by its headings.
type page struct {
	name, text string
	sections   map[string]string
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(repositoryRoot(t), name))).In(t)
	return parsePage(name, string(text))
}

func parsePage(name, text string) page {
	p, heading := page{name: name, text: text, sections: map[string]string{}}, ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimSpace(line)
		}
		p.sections[heading] += line
	}
	return p
}

// files are the code blocks of a section whose names stand before them: **`crd.yaml`**.
func (p page) files(heading string) map[string]string {
	block := regexp.MustCompile("(?ms)^\\*\\*`([\\w.]+)`\\*\\*[^`]*?\n```\\w+\n(.*?\n)```$")
	files := map[string]string{}
	for _, found := range block.FindAllStringSubmatch(p.sections[heading], -1) {
		files[found[1]] = found[2]
	}
	return files
}

// commands are the commands of a section that begin with one of some words, with their output.
func (p page) commands(heading string, words ...string) []shownCommand {
	return slices.DeleteFunc(p.parseCommands(p.sections[heading]), func(shown shownCommand) bool {
		word, _, _ := strings.Cut(shown.command, " ")
		return !slices.Contains(words, word)
	})
}

func (p page) parseCommands(text string) []shownCommand {
	var all []shownCommand
	for _, each := range pages.Parse(text) {
		all = append(all, shownCommand{p.name, each.Command, each.Output})
	}
	return all
}

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
	docs := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))).In(t)
	for _, path := range append(docs, filepath.Join("..", "..", "README.md")) {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		for _, each := range pages.Parse(readPage(t, name).text) {
			command := name + " " + each.Command
			if each.Command != "" && strings.TrimSpace(each.Output) != "" && tested[command] == 0 {
				t.Errorf("no test compares the output of %q: add a line \"shown %s '%s'\" to a script of testdata/scripts", each.Command, name, each.Command)
			}
			tested[command] = max(tested[command]-1, 0)
		}
	}
}

var shownLine = regexp.MustCompile(`(?m)^shown (\S+) '((?:[^']|'')+)'`)

// shownByScripts lists pages and commands that scripts compare.
func shownByScripts(t *testing.T) []string {
	t.Helper()
	scripts := must.Get(filepath.Glob(filepath.Join("testdata", "*", "*.txtar"))).In(t)
	var all []string
	for _, path := range scripts {
		text := must.Get(os.ReadFile(path)).In(t)
		for _, found := range shownLine.FindAllStringSubmatch(string(text), -1) {
			all = append(all, found[1]+" "+strings.ReplaceAll(found[2], "''", "'"))
		}
	}
	return all
}
