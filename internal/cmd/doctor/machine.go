package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// tool is a program that some need.
type tool struct {
	// programs are its names, or paths.
	programs []string
	// print is the argument for which it prints its version, which must be oldest or newer; "" for any.
	print, oldest string
	// needs are what needs it, and install how to get it.
	needs, install string
}

// golang and node run what users write. A browser opens the dashboard; tools/find-chromium.sh finds one for tests.
var (
	golang = tool{[]string{"go"}, "version", "1.26", "controllers in Go", "install Go from https://go.dev/dl"}
	node   = tool{[]string{"node"}, "--version", process.NodeWithTypes, "webhooks in TypeScript", "install Node.js from https://nodejs.org"}

	browser = tool{[]string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox",
		"/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
		"/Applications/Safari.app/Contents/MacOS/Safari"}, "", "", "users of the dashboard", "install a browser, or use `ssh -L` from where one is"}
)

var versionPattern = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// check finds the program and compares the version that it prints.
func (t tool) check(ctx context.Context) finding {
	path := ""
	for _, name := range t.programs {
		if found, err := exec.LookPath(name); err == nil {
			path = cmp.Or(path, found)
		}
	}
	switch {
	case path == "":
		return isWarning.because("not found; %s need it", t.needs).fixedBy(t.install)
	case t.oldest == "":
		return isOK.because("%s", path)
	}
	run := exec.CommandContext(ctx, path, t.print)
	run.Dir, run.Env = os.TempDir(), append(os.Environ(), "GOTOOLCHAIN=local") // No go.mod may have another Go downloaded.
	printed, err := run.Output()
	text := versionPattern.FindString(string(printed))
	found, parseErr := version.ParseGeneric(text)
	if err != nil || parseErr != nil || found.LessThan(version.MustParseGeneric(t.oldest)) {
		return isWarning.because("%s is version %s; %s need %s or newer", path, cmp.Or(text, "unknown"), t.needs, t.oldest).fixedBy(t.install)
	}
	return isOK.because("%s, %s", text, path)
}

// python finds the interpreter as operators do.
func python(ctx context.Context) finding {
	path, found, err := operator.FindInterpreter(ctx, "", os.Getenv("VIRTUAL_ENV"))
	if err != nil {
		return isWarning.because("%v", err).fixedBy("install Python 3, which operators in Python need")
	}
	return isOK.because("%s, %s", strings.TrimPrefix(found, "Python "), path)
}

// dashboardPort and healthPort are free, or of another program.
func dashboardPort(ctx context.Context) finding {
	if by := holder(ctx, dev.DefaultDashboardAddress); by != "" {
		return isOK.because("%s is of %s; setpoint dev takes another one", dev.DefaultDashboardAddress, by)
	}
	return isOK.because("%s is free for setpoint dev", dev.DefaultDashboardAddress)
}

func healthPort(ctx context.Context) finding {
	if by := holder(ctx, flags.LocalAddress); by != "" {
		return isWarning.because("%s, of setpoint run, is of %s", flags.LocalAddress, by).fixedBy("setpoint run --address 127.0.0.1:PORT")
	}
	return isOK.because("%s is free for setpoint run", flags.LocalAddress)
}

// listenerPattern matches a program and its process ID in the output of lsof or ss.
var listenerPattern = regexp.MustCompile(`(?m)^p(\d+)\s+c(.+)$|\(\("([^"]+)",pid=(\d+)`)

// holder returns the program that listens at an address; "" if it is free.
func holder(ctx context.Context, address string) string {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err == nil {
		_ = listener.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return ""
	}
	_, port, _ := net.SplitHostPort(address)
	for _, command := range [][]string{{"lsof", "-nP", "-iTCP:" + port, "-sTCP:LISTEN", "-Fpc"}, {"ss", "-Hltnp", "sport = :" + port}} {
		printed, _ := exec.CommandContext(ctx, command[0], command[1:]...).Output() // It may be missing.
		if m := listenerPattern.FindStringSubmatch(string(printed)); m != nil {
			return fmt.Sprintf("%s (process %s)", m[2]+m[3], m[1]+m[4])
		}
	}
	return "another program"
}

func openFiles(context.Context) finding { return judgeFiles(serving.MaxOpenFiles()) }

// judgeFiles compares the limit of open files with what is enough.
func judgeFiles(limit int) finding {
	if limit < serving.EnoughOpenFiles {
		return isWarning.because("%d at most, which limits the connections of webhooks and hooks", limit).
			fixedBy(fmt.Sprintf("ulimit -n %d", serving.EnoughOpenFiles))
	}
	return isOK.because("%d or more, which is enough", serving.EnoughOpenFiles)
}

func leftovers(context.Context) finding {
	return judgeLeftovers(dev.Leftovers(time.Now().Add(-dev.StartTime)))
}

// judgeLeftovers says how to remove what killed sessions left.
func judgeLeftovers(paths []string) finding {
	if len(paths) == 0 {
		return isOK.because("none of killed sessions of setpoint dev")
	}
	found := isWarning.because("killed sessions of setpoint dev left what setpoint dev removes a day later: ").listing(paths)
	return found.fixedBy("rm -r " + strings.Join(lists.Map(paths, strconv.Quote), " "))
}
