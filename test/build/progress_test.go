package build

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

const script = "../../tools/build-with-progress.sh"

// fakeGo lists the packages of the file plan; what it says of a build comes from the pipe log.
const fakeGo = `#!/bin/sh
case " $* " in
*" list "*) cat "$FAKE/plan" ;;
*" build "*) echo "$*" >"$FAKE/arguments"; cat "$FAKE/log" >&2; exit "$STATUS" ;;
esac
`

// build is a run of the script with a go command that is played.
type build struct {
	t              *testing.T
	folder         string
	log            io.WriteCloser
	stdout, stderr *bufio.Reader
	cmd            *exec.Cmd
}

const plan = `bytes false 3 10
example.com/small true 1 50
example.com/large true 60 500
example.com/main true 1 600
`

// start runs a command, which ends with the arguments of the script.
func start(t *testing.T, status string, command ...string) *build {
	t.Helper()
	b := &build{t: t, folder: t.TempDir()}
	must.Succeed(t, os.WriteFile(filepath.Join(b.folder, "go"), []byte(fakeGo), 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(b.folder, "plan"), []byte(plan), 0o644))
	must.Succeed(t, syscall.Mkfifo(filepath.Join(b.folder, "log"), 0o600))
	b.cmd = exec.CommandContext(t.Context(), command[0], append(command[1:], script, "bin/program", "module", "./cmd", "-ldflags", "-s -w")...)
	b.cmd.Env = append(os.Environ(), "PATH="+b.folder+":"+os.Getenv("PATH"), "FAKE="+b.folder, "STATUS="+status,
		"PROGRESS_AFTER=0", "PROGRESS_EVERY=0", "TERM=xterm")
	b.stdout = bufio.NewReader(must.Get(b.cmd.StdoutPipe()).In(t))
	b.stderr = bufio.NewReader(must.Get(b.cmd.StderrPipe()).In(t))
	must.Succeed(t, b.cmd.Start())
	b.log = must.Get(os.OpenFile(filepath.Join(b.folder, "log"), os.O_WRONLY, 0)).In(t)
	return b
}

// says lets the go command write, and waits for the progress that follows.
func (b *build) says(text, progress string) {
	b.t.Helper()
	must.Get(io.WriteString(b.log, text)).In(b.t)
	for {
		line, err := b.stdout.ReadString('\n')
		if strings.Contains(line, progress) {
			return
		}
		if err != nil {
			b.t.Fatalf("no %q before the end: %v", progress, err)
		}
	}
}

// ends lets the build end, and returns what it prints last, and its exit code.
func (b *build) ends() (out, errs string, code int) {
	b.t.Helper()
	must.Succeed(b.t, b.log.Close())
	stdout, stderr := must.Get(io.ReadAll(b.stdout)).In(b.t), must.Get(io.ReadAll(b.stderr)).In(b.t)
	_ = b.cmd.Wait()
	return string(stdout), string(stderr), b.cmd.ProcessState.ExitCode()
}

func TestProgress(t *testing.T) {
	t.Parallel()
	b := start(t, "0", "sh")
	b.says("", "bin/program: looking for what to compile\n")
	b.says("go: downloading example.com/other v1.2.3\n", "bin/program: fetching modules: 1 so far\n")
	b.says("example.com/small\n", "bin/program: compiling 1 of 3 packages\n")
	b.says("example.com/large\nexample.com/main\n", "bin/program: linking\n")
	out, errs, code := b.ends()
	if !strings.Contains(out, "bin/program: built in ") || errs != "" || code != 0 {
		t.Errorf("a build ends with %d, and prints\n%s%s", code, out, errs)
	}
	folder := must.Get(os.Getwd()).In(t)
	if got, want := string(must.Get(os.ReadFile(filepath.Join(b.folder, "arguments"))).In(t)),
		"-C module build -v -ldflags -s -w -o "+folder+"/bin/program ./cmd\n"; got != want {
		t.Errorf("the go command is called with\n%swant\n%s", got, want)
	}
}

// TestFailure is a build whose errors are all that is printed of its log.
func TestFailure(t *testing.T) {
	t.Parallel()
	b := start(t, "1", "sh")
	b.says("go: downloading example.com/other v1.2.3\nexample.com/small\n", "compiling 1 of 3")
	const problem = "# example.com/small\nsmall/small.go:3:1: undefined: big\n"
	b.says(problem, "compiling 1 of 3")
	if out, errs, code := b.ends(); errs != problem || code != 1 || strings.Contains(out, "built") {
		t.Errorf("a build that fails ends with %d, and prints\n%s%s", code, out, errs)
	}
}

// TestTerminal is one narrow line, which is written anew each time.
func TestTerminal(t *testing.T) {
	t.Parallel()
	python := `import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", "stty cols 40 && exec sh \"$@\"", "sh", *sys.argv[1:]])))`
	b := start(t, "0", "python3", "-c", python)
	must.Get(io.WriteString(b.log, "example.com/small\n")).In(t)
	var lines []string
	for line := ""; !strings.Contains(line, "compiling 1 of 3 packages"); lines = append(lines, line) {
		line = must.Get(b.stdout.ReadString('\r')).In(t)
	}
	out, errs, code := b.ends()
	if code != 0 || errs != "" || !strings.Contains(out, "\rbin/program: built in ") {
		t.Errorf("on a terminal, a build ends with %d, and prints\n%q%s", code, out, errs)
	}
	if i := slices.IndexFunc(lines, func(line string) bool { return len(line) > 40 || strings.Contains(line, "\n") }); i >= 0 {
		t.Errorf("this is not one line of at most 39 columns: %q", lines[i])
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	var packages, log strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&packages, "example.com/p%d true %d 0\n", i, 1+2*(i/1000)) // The second half is more work.
		if i < 1000 {
			fmt.Fprintf(&log, "example.com/p%d\n", i)
		}
	}
	for _, test := range []struct {
		plan, log string
		seconds   int
		want      string
	}{
		{"", "", 0, "looking for what to compile"},
		{"", "go: downloading a v1\ngo: downloading b v1\n", 0, "fetching modules: 2 so far"},
		{"", log.String(), 100, "compiling packages: 1,000 so far"},
		{packages.String(), "example.com/p0\n", 100, "compiling 1 of 2,000 packages"},
		{packages.String(), log.String(), 5, "compiling 1,000 of 2,000 packages"},
		{packages.String(), log.String(), 25, "compiling 1,000 of 2,000 packages, less than a minute left"},
		{packages.String(), log.String(), 300, "compiling 1,000 of 2,000 packages, about 7 min left"},
		{"a true 1 0\nb false 1 0\n", "go: downloading c v1\nb\n# b\nb/b.go:1:1: wrong\n", 100, "compiling 1 of 2 packages, about 2 min left"},
		{"a true 1 0\nb false 1 0\n", "a\n", 100, "linking"},
	} {
		folder := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(folder, "plan"), []byte(test.plan), 0o644))
		must.Succeed(t, os.WriteFile(filepath.Join(folder, "log"), []byte(test.log), 0o644))
		awk := exec.Command("awk", "-v", "name=it", "-v", fmt.Sprint("seconds=", test.seconds), "-f", "../../tools/build-progress.awk",
			filepath.Join(folder, "plan"), filepath.Join(folder, "log"))
		if got := string(must.Get(awk.CombinedOutput()).In(t)); got != "it: "+test.want+"\n" {
			t.Errorf("after %d s, a build says %q, and not %q", test.seconds, got, test.want)
		}
	}
}
