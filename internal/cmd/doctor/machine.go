package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
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
	program string
	// print is the argument for which it prints its version, which must be oldest or newer; "" for any.
	print, oldest string
	// needs are what needs it, and install how to get it.
	needs, install string
}

var (
	golang = tool{"go", "version", "1.26", "controllers in Go", "install Go from https://go.dev/dl"}
	node   = tool{"node", "--version", process.NodeWithTypes, "webhooks in TypeScript", "install Node.js from https://nodejs.org"}
)

var versionPattern = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// check finds the program and compares the version that it prints.
func (t tool) check(ctx context.Context) finding {
	path, err := exec.LookPath(t.program)
	switch {
	case err != nil:
		return isWarning.because("%s is not found; %s need it", t.program, t.needs).fixedBy(t.install)
	case t.oldest == "":
		return isOK.because("%s", path)
	}
	run := exec.CommandContext(ctx, path, t.print)
	run.Dir, run.Env = os.TempDir(), append(os.Environ(), "GOTOOLCHAIN=local") // No go.mod may have another Go downloaded.
	printed, err := run.Output()
	text := versionPattern.FindString(string(printed))
	found, parseErr := version.ParseGeneric(text)
	if err != nil || parseErr != nil || found.LessThan(version.MustParseGeneric(t.oldest)) {
		return isWarning.because("%s is version %s; %s need %s or newer", path, cmp.Or(text, "unknown"), t.needs, t.oldest).
			fixedBy(t.install)
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

func dashboardPort(ctx context.Context) finding {
	if err := listen(ctx, dev.DefaultDashboardAddress); err != nil {
		return isOK.because("setpoint dev takes another one: %v", err)
	}
	return isOK.because("%s is free for setpoint dev", dev.DefaultDashboardAddress)
}

func healthPort(ctx context.Context) finding {
	if err := listen(ctx, flags.LocalAddress); err != nil {
		return isWarning.because("setpoint run cannot use it: %v", err).fixedBy("setpoint run --address 127.0.0.1:PORT")
	}
	return isOK.because("%s is free for setpoint run", flags.LocalAddress)
}

// listen returns why nothing can listen at an address.
func listen(ctx context.Context, address string) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// openFiles compares the limit of open files with what is enough.
func openFiles(context.Context) finding {
	if limit := serving.MaxOpenFiles(); limit < serving.EnoughOpenFiles {
		return isWarning.because("%d at most, which limits the connections of webhooks and hooks", limit).
			fixedBy(fmt.Sprintf("ulimit -n %d", serving.EnoughOpenFiles))
	}
	return isOK.because("%d or more, which is enough", serving.EnoughOpenFiles)
}

// leftovers says how to remove what killed sessions left.
func leftovers(context.Context) finding {
	paths := dev.Leftovers(time.Now())
	if len(paths) == 0 {
		return isOK.because("none of killed sessions of setpoint dev")
	}
	return isWarning.because("killed sessions of setpoint dev left what setpoint dev removes a day later").
		fixedBy("rm -r " + strings.Join(lists.Map(paths, strconv.Quote), " "))
}
