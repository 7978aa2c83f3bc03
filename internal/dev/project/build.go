package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Binary is the placeholder in build and command for a path that `setpoint dev` chooses.
const Binary = "{binary}"

// Compile compiles the program, if the file says how.
func (p *Process) Compile(ctx context.Context, reaper *process.Reaper, output io.Writer) error {
	if len(p.Build) == 0 {
		return nil
	}
	code, err := process.Command{
		Args: p.Build, Env: p.Environ(), Dir: p.Dir, Stdout: output, Stderr: output, Reaper: reaper,
	}.Run(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d", strings.Join(p.Build, " "), code)
	}
	if err != nil {
		return fmt.Errorf("process %s does not compile: %w", p.Name, err)
	}
	return nil
}

// cacheFolder returns the folder of the project's binaries in the user's cache. It is the same each time, so that
// unchanged programs are not linked again.
func (p *Project) cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(p.Dir))
	folder := filepath.Join(cache, "setpoint", "dev", hex.EncodeToString(sum[:8]))
	return folder, os.MkdirAll(folder, 0o700)
}

// splitGoRun makes of `go run [FLAGS] PACKAGE [ARGUMENTS]` a `go build` into {binary}
// with what `go run` sets beside the flags (no debug information, no version control
// stamp), and the command that runs it. It is false for what `go build` cannot do alike:
// PACKAGE@VERSION, -exec, -n, -C.
func splitGoRun(command []string) (build, run []string, ok bool) {
	if len(command) < 3 || filepath.Base(command[0]) != "go" || command[1] != "run" {
		return nil, nil, false
	}
	flags, rest := goFlags(command[2:])
	named := func(names ...string) bool {
		return slices.ContainsFunc(flags, func(flag string) bool { return slices.Contains(names, goFlagName(flag)) })
	}
	packages := goPackages(rest)
	if len(packages) == 0 || strings.Contains(packages[0], "@") || named("exec", "n", "C", "o") {
		return nil, nil, false
	}
	build = []string{command[0], "build", "-v", "-buildvcs=false"}
	if !named("ldflags") {
		build = append(build, "-ldflags=-s -w")
	}
	build = append(append(append(build, flags...), "-o", Binary), packages...)
	return build, append([]string{Binary}, rest[len(packages):]...), true
}

// goFlags splits the flags of `go run` from its other arguments.
func goFlags(words []string) (flags, rest []string) {
	i := 0
	for i < len(words) && strings.HasPrefix(words[i], "-") {
		if !strings.Contains(words[i], "=") && slices.Contains(goFlagsWithValue, goFlagName(words[i])) {
			i++
		}
		i++
	}
	i = min(i, len(words))
	return words[:i], words[i:]
}

func goFlagName(flag string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return name
}

// goFlagsWithValue are the build flags that may have a separate value.
var goFlagsWithValue = []string{
	"C", "asmflags", "buildmode", "compiler", "covermode", "coverpkg", "exec", "gccgoflags", "gcflags",
	"installsuffix", "ldflags", "mod", "modfile", "o", "overlay", "p", "pgo", "pkgdir", "tags", "toolexec",
}

// goPackages returns the leading Go files, or the package.
func goPackages(words []string) []string {
	files := 0
	for files < len(words) && strings.HasSuffix(words[files], ".go") {
		files++
	}
	return words[:min(max(files, 1), len(words))]
}
