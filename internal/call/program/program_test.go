package program_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/hook/hooktest"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/call/program"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// TestMain makes this binary a program that forwards each line to the URL in its argument.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "http") {
		forward(os.Args[1])
		return
	}
	os.Exit(m.Run())
}

func forward(url string) {
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		response, err := http.Post(url, "application/json", bytes.NewReader(line))
		if err != nil {
			fmt.Printf("{\"error\": %q}\n", err)
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			after, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			body = fmt.Appendf(nil, `{"error":%q,"retryAfterSeconds":%d}`, body, after)
		}
		fmt.Println(string(bytes.ReplaceAll(body, []byte("\n"), nil)))
	}
}

// forwardTo returns a hook that this binary, as a program, forwards to a server.
func forwardTo(t *testing.T, handler http.Handler, wire codec.Wire) *call.Hook {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	path := must.Get(os.Executable()).In(t)
	h := open(t, filepath.Dir(path), time.Minute, filepath.Base(path), server.URL)
	return call.New(call.Config{Transport: h, Wire: wire})
}

func open(t *testing.T, dir string, timeout time.Duration, command ...string) call.Transport {
	t.Helper()
	o := &program.Opener{Dirs: []string{dir}, Limiter: child.NewLimiter(0), Log: slog.New(slog.DiscardHandler)}
	transport := must.Get(o.Open(call.Command{Controller: "test", Args: command, Timeout: timeout})).In(t)
	t.Cleanup(transport.Close)
	return transport
}

func TestHook(t *testing.T) {
	hooktest.Run(t, func(t *testing.T, logic http.Handler, wire codec.Wire) hooktest.Caller {
		return forwardTo(t, logic, wire)
	})
}

// writeProgram writes an executable shell script.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
}

func sync(t *testing.T, h *call.Hook) (string, error) {
	t.Helper()
	resp, err := h.Call(t.Context(), &hook.Request{Parent: []byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`)})
	if err != nil {
		return "", err
	}
	return string(resp.Status), nil
}

const loop = `while read -r line; do %s; done`

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		kind               failure.FaultKind
	}{
		{"good", fmt.Sprintf(loop, `echo '{"status":{"n":1},"children":[]}'`), "", ""},
		{"own", fmt.Sprintf(loop, `echo '{ "error": "no such currency"}'`), "exec ./hook: no such currency", failure.HookFailed},
		{"order", fmt.Sprintf(loop, `echo '{"retryAfterSeconds": 1, "error": "later"}'`), "exec ./hook: later", failure.HookFailed},
		{"exit", `read -r line; echo broken >&2; exit 3`, "exec ./hook: exited with code 3: broken", failure.HookFailed},
		{"end", `read -r line; exit 0`, "exec ./hook: exited with code 0, but it should keep running", failure.HookFailed},
		{"hang", `sleep 1000`, "exec ./hook: did not return within 500ms", failure.HookTimeout},
		{"garbage", fmt.Sprintf(loop, "echo 'Hello, world'"), "exec ./hook: malformed response: the line is not a JSON document: Hello, world", failure.HookFailed},
		{"pretty", fmt.Sprintf(loop, `echo '{'; echo '}'`), "exec ./hook: malformed response: the line is not a JSON document: {", failure.HookFailed},
		{"large", `head -c 40000000 /dev/zero`, "exec ./hook: malformed response: larger than 32 MiB", failure.HookFailed},
		{"interpreter", "", "exec ./hook: run ", failure.HookUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeProgram(t, filepath.Join(dir, "hook"), c.script)
			if c.name == "interpreter" {
				_ = os.WriteFile(filepath.Join(dir, "hook"), []byte("#!/no/such/interpreter\n"), 0o700)
			}
			timeout := time.Minute
			if c.kind == failure.HookTimeout {
				timeout = 500 * time.Millisecond
			}
			_, err := sync(t, call.New(call.Config{Transport: open(t, dir, timeout, "./hook")}))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if own, is := errors.AsType[*program.Error](err); is && own.Fault().Kind != c.kind {
				t.Error(own.Fault().Kind)
			}
		})
	}
}

// Each call gets the lines that the program printed in it.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	writeProgram(t, filepath.Join(dir, "hook"), fmt.Sprintf(loop, `n=$((n+1)); echo "call $n" >&2; echo '{"children":[]}'`))
	h := call.New(call.Config{Transport: open(t, dir, time.Minute, "./hook")})
	for _, want := range []string{"call 1", "call 2"} {
		ctx, printed := call.WithOutput(t.Context())
		must.Get(h.Call(ctx, &hook.Request{Parent: []byte(`{}`)})).In(t)
		// A line may arrive after the response.
		for lines, _ := printed.Lines(); len(lines) == 0 && t.Context().Err() == nil; lines, _ = printed.Lines() {
			runtime.Gosched()
		}
		if lines, _ := printed.Lines(); !slices.Equal(lines, []string{want}) {
			t.Errorf("the call printed %q, not %q", lines, want)
		}
	}
}

// A program runs in its directory, and anew when one of its files has changed.
func TestChangedPrograms(t *testing.T) {
	dir := t.TempDir()
	writeProgram(t, filepath.Join(dir, "hook"), `while read -r line; do echo "{\"status\":{\"v\":$(cat "$1")},\"children\":[]}"; done`)
	hook := call.New(call.Config{Transport: open(t, dir, time.Minute, "hook", "version")})
	for _, version := range []string{"1", "22"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o600))
		if got, err := sync(t, hook); got != `{"v":`+version+`}` {
			t.Errorf("%s, %v", got, err)
		}
	}
	writeProgram(t, filepath.Join(dir, "hook"), `while read -r line; do echo "{\"status\":{\"v\":\"new\"},\"children\":[]}"; done`)
	if got, err := sync(t, hook); got != `{"v":"new"}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A link is resolved at each start.
func TestChangedLink(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	writeProgram(t, outside, fmt.Sprintf(loop, `echo '{"status":{"v":"outside"},"children":[]}'`))
	writeProgram(t, filepath.Join(dir, "inner"), fmt.Sprintf(loop, `echo '{"status":{"v":"inner"},"children":[]}'`))
	link := filepath.Join(dir, "link")
	must.Succeed(t, os.Symlink("inner", link))
	hook := call.New(call.Config{Transport: open(t, dir, time.Minute, "./link")})
	if got, err := sync(t, hook); got != `{"v":"inner"}` {
		t.Errorf("%s, %v", got, err)
	}
	_ = os.Remove(link)
	must.Succeed(t, os.Symlink(outside, link))
	if got, err := sync(t, hook); err == nil || err.Error() != "exec ./link: ./link leads out of "+dir {
		t.Errorf("%s, %v", got, err)
	}
}

// In development, a file beside the program with its extension restarts it.
func TestHelpers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	writeProgram(t, filepath.Join(dir, "hook.sh"), `. ./helper.sh; while read -r line; do echo "{\"status\":{\"v\":$v},\"children\":[]}"; done`)
	write("helper.sh", "v=1")
	o := &program.Opener{Dirs: []string{dir}, Limiter: child.NewLimiter(0), Log: slog.New(slog.DiscardHandler), WatchHelpers: true}
	transport := must.Get(o.Open(call.Command{Args: []string{"./hook.sh"}, Timeout: time.Minute})).In(t)
	hook := call.New(call.Config{Transport: transport})
	for _, v := range []string{"1", "22"} {
		write("helper.sh", "v="+v)
		if got, err := sync(t, hook); got != `{"v":`+v+`}` {
			t.Errorf("%s, %v", got, err)
		}
	}
	for name, want := range map[string]string{"helper.sh": "./hook.sh", "hook.sh": "./hook.sh", "new.sh": "", "data.json": ""} {
		if got := strings.Join(o.Using(filepath.Join(dir, name)), " "); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	transport.Close()
	if got := o.Using(filepath.Join(dir, "hook.sh")); len(got) > 0 {
		t.Error(got)
	}
}

func TestWhichPrograms(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	writeProgram(t, outside, "")
	writeProgram(t, filepath.Join(dir, "hook"), "")
	_ = os.Mkdir(filepath.Join(dir, "folder"), 0o700)
	_ = os.WriteFile(filepath.Join(dir, "text"), nil, 0o600)
	writeProgram(t, filepath.Join(dir, "setuid"), "")
	_ = os.Chmod(filepath.Join(dir, "setuid"), 0o700|fs.ModeSetuid)
	_ = os.Symlink("setuid", filepath.Join(dir, "linked-setuid"))
	_ = os.Symlink(outside, filepath.Join(dir, "link"))
	_ = os.Symlink("hook", filepath.Join(dir, "inner"))
	_ = os.Symlink(dir, filepath.Join(filepath.Dir(outside), "dir"))
	for name, want := range map[string]string{
		"hook":                     "",
		"./folder/../hook":         "",
		"inner":                    "",
		filepath.Join(dir, "hook"): "",
		"missing":                  "missing is not in DIR; a program from elsewhere needs a script there that runs it",
		"../outside":               "../outside leads out of DIR",
		outside:                    "" + outside + " leads out of DIR",
		"/bin/sh":                  "/bin/sh leads out of DIR",
		"link":                     "link leads out of DIR",
		"folder":                   "folder is not a file",
		"text":                     "text is not executable; run: chmod +x 'DIR/text'",
		"setuid":                   "setuid runs as its owner (setuid or setgid), so Setpoint could not stop it; run: chmod ug-s 'DIR/setuid'",
		"linked-setuid":            "linked-setuid runs as its owner (setuid or setgid), so Setpoint could not stop it; run: chmod ug-s 'DIR/setuid'",
		"":                         " is not a file",
	} {
		o := &program.Opener{Dirs: []string{dir}, Limiter: child.NewLimiter(0), Log: slog.New(slog.DiscardHandler)}
		transport, err := o.Open(call.Command{Args: []string{name}, Timeout: time.Second})
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir, "DIR")
		} else {
			transport.Close()
		}
		if got != strings.ReplaceAll(want, dir, "DIR") {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

// A call tells its code by the content of the files that the command names.
func TestCallTellsItsCode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hook")
	digest := func(script string, modified time.Time) call.Code {
		writeProgram(t, file, fmt.Sprintf(loop, script))
		must.Succeed(t, os.Chtimes(file, modified, modified))
		ctx, output := call.WithOutput(t.Context())
		must.Get(call.New(call.Config{Transport: open(t, dir, time.Minute, "hook")}).Call(ctx, &hook.Request{Parent: []byte(`{}`)})).In(t)
		return output.Code()
	}
	now := time.Now()
	one, touched, other := digest(`echo '{"children":[]}'`, now), digest(`echo '{"children":[]}'`, now.Add(time.Second)), digest(`echo '{"children": []}'`, now)
	if one.Digest == "" || one.Since.IsZero() || one.Digest != touched.Digest || one.Digest == other.Digest {
		t.Errorf("%+v, %+v, %+v", one, touched, other)
	}
}
