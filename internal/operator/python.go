package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Python is an operator in Python files.
type Python struct {
	// Files and Modules have its handlers.
	Files, Modules []string
	// Name is the name of the operator; "" for that of its first file or module.
	Name string
	// Interpreter is the path of Python; "" for that of $VIRTUAL_ENV, or python3.
	Interpreter string
	// Dir is the working directory, and Env has more variables of the environment.
	Dir string
	Env []string
	// LogFlags are passed on to the process.
	LogFlags []string
	// Package is the Python package to run.
	Package fs.FS
	// Kubeconfig is that of Setpoint.
	Kubeconfig Kubeconfig
	// Executable is the path of Setpoint.
	Executable string
	Stdout     io.Writer
	Stderr     io.Writer
}

// ParsePython returns the files and modules that arguments of --python name. An argument is a
// module if it looks like one and no file has its name.
func ParsePython(args, modules []string) (Python, error) {
	p := Python{Modules: modules}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err == nil && info.IsDir():
			return p, fmt.Errorf("%s is a folder; use its files, or a module with -m", arg)
		case err == nil:
			p.Files = append(p.Files, arg)
		case strings.HasSuffix(arg, ".py") || strings.ContainsRune(arg, filepath.Separator) || !isModule(arg):
			return p, err
		default:
			p.Modules = append(p.Modules, arg)
		}
	}
	for _, module := range modules {
		if !isModule(module) {
			return p, fmt.Errorf("-m %q is no name of a module, such as operators.exchangerate", module)
		}
	}
	if len(p.Files)+len(p.Modules) == 0 {
		return p, errors.New("no file and no module of the operator is given")
	}
	return p, nil
}

// isModule reports whether a text can be the dotted name of a module.
func isModule(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.ContainsAny(part, " -/\\:*?[]()") {
			return false
		}
	}
	return true
}

// arguments returns the name, the files and the modules as arguments of the package.
func (p *Python) arguments(describe bool) []string {
	var args []string
	if describe {
		args = append(args, "--describe")
	}
	if p.Name != "" {
		args = append(args, "--name", p.Name)
	}
	args = append(args, p.Files...)
	for _, module := range p.Modules {
		args = append(args, "-m", module)
	}
	return args
}

// prepare extracts the package and returns the interpreter and its environment.
func (p *Python) prepare(ctx context.Context, in folder) (interpreter string, env []string, err error) {
	if interpreter, _, err = FindInterpreter(ctx, p.Interpreter, os.Getenv("VIRTUAL_ENV")); err != nil {
		return "", nil, err
	}
	if err := os.CopyFS(in.python(), p.Package); err != nil {
		return "", nil, fmt.Errorf("extract the Python package: %w", err)
	}
	if env, err = p.Kubeconfig.environment(in.kubeconfig()); err != nil {
		return "", nil, err
	}
	path := in.python()
	if own := os.Getenv("PYTHONPATH"); own != "" {
		path += string(filepath.ListSeparator) + own
	}
	return interpreter, append(env, "PYTHONPATH="+path, "PYTHONUNBUFFERED=1", "SETPOINT="+p.Executable), nil
}

// startPackage does what -m setpoint does, but does not search the working directory first: a file
// there may have the name of a module of the standard library, such as operator.py.
const startPackage = `import sys
if sys.path[:1] == [""]: del sys.path[0]
import runpy
runpy.run_module("setpoint", run_name="__main__", alter_sys=True)`

// start starts the process. To describe an operator is to call none of its handlers.
func (p *Python) start(ctx context.Context, describe bool) (*pythonProcess, error) {
	in, remove, err := newFolder()
	if err != nil {
		return nil, err
	}
	run, err := p.startIn(ctx, in, describe)
	if err != nil {
		remove()
		return nil, err
	}
	run.removeFolder = remove
	return run, nil
}

func (p *Python) startIn(ctx context.Context, in folder, describe bool) (*pythonProcess, error) {
	if err := in.checkSocket(); err != nil {
		return nil, err
	}
	interpreter, env, err := p.prepare(ctx, in)
	if err != nil {
		return nil, err
	}
	stdin, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := append([]string{interpreter, "-c", startPackage, "serve", "--socket", in.socketPath()}, p.LogFlags...)
	running := &pythonProcess{folder: in, alive: alive, ended: make(chan struct{})}
	running.reaper, _ = process.NewReaper() // Without a shell, the end of stdin has to do.
	command := process.Command{
		Args: append(args, p.arguments(describe)...), Env: append(env, p.Env...), Dir: p.Dir,
		Stdin: stdin, Stdout: p.Stdout, Stderr: p.Stderr, Reaper: running.reaper, Grace: stopGrace,
	}
	ctx, running.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(running.ended)
		defer stdin.Close()
		code, err := command.Run(ctx)
		running.err = &ExitError{code}
		if err != nil {
			running.err = fmt.Errorf("start the operator: %w", err)
		}
	}()
	return running, nil
}

// The oldest supported version of Python.
const minMajor, minMinor = 3, 9

// FindInterpreter returns the path and the version of the interpreter: the one of the flag, else that of the
// virtual environment, else python3. It runs it to see its version; the expression is valid in every version of Python.
func FindInterpreter(ctx context.Context, flag, virtualEnv string) (path, found string, err error) {
	name := cmp.Or(flag, "python3")
	if flag == "" && virtualEnv != "" {
		name = filepath.Join(virtualEnv, "bin", "python3")
	}
	path, err = exec.LookPath(name)
	if err != nil {
		return "", "", fmt.Errorf("find Python %d.%d or newer: %w; install it, or use --python-interpreter PATH", minMajor, minMinor, err)
	}
	//nolint:gosec // The user chooses the interpreter.
	output, err := exec.CommandContext(ctx, path, "-c", `import sys; print("Python %d.%d.%d" % sys.version_info[:3])`).CombinedOutput()
	found = strings.TrimSpace(string(output))
	var major, minor, micro int
	if _, scanErr := fmt.Sscanf(found, "Python %d.%d.%d", &major, &minor, &micro); scanErr != nil {
		return "", "", fmt.Errorf("%s is no Python interpreter (%w): it printed %.80q", path, cmp.Or(err, scanErr), found)
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return "", "", fmt.Errorf("%s is %s, and operators need Python %d.%d or newer: use --python-interpreter PATH",
			path, found, minMajor, minMinor)
	}
	return path, found, nil
}
