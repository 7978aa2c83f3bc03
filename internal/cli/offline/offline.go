// Package offline opens the files of an operator for commands that need no cluster: the hooks are called as in
// `setpoint run`, and the programs of setpoint.yaml that serve them are started.
//
// Package workspace has the files; what a command does with them is its own.
package offline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/served"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// OperatorParser returns what the arguments of `setpoint run` say of the operator. Its files are in the folder.
type OperatorParser func(args []string, dir string) (operator.Options, error)

// Flags are the flags of how the hooks of files are called. It keeps what hooks and programs print.
type Flags struct {
	parse     OperatorParser
	hooks     []string
	processes hooks.Processes
	printed   programOutput
}

// NewFlags returns the flags of a command. It reads the command lines of operators with the function.
func NewFlags(parse OperatorParser) *Flags { return &Flags{parse: parse} }

// Register adds the flags.
func (f *Flags) Register(set *pflag.FlagSet) {
	set.StringArrayVar(&f.hooks, "hook", nil, "`[HOST=]ADDRESS` to reach the hook of that host, or all hooks (repeatable)")
	f.processes.RegisterMemory(set)
}

// Open reads the files and folders of the arguments and compiles their controllers. A signal sets the exit code.
func (f *Flags) Open(ctx context.Context, p *command.Invocation, args []string) (*workspace.Workspace, error) {
	routes, err := hooks.ParseRoutes(os.Getenv(hooks.Variable), f.hooks)
	if err != nil {
		return nil, command.UsageError(err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		switch info, err := os.Stat(arg); {
		case arg == manifest.Stdin, err == nil && !info.IsDir():
			arg = filepath.Dir(arg)
		case err != nil:
			return nil, err
		}
		f.processes.ExecDirs = append(f.processes.ExecDirs, arg)
	}
	f.processes.Log = flags.NewLog(f.printed.of("hook"), flags.Brief, "info")
	var calls manager.Options
	if err := f.processes.AddTo(&calls); err != nil {
		return nil, err
	}
	w, err := workspace.Open(ctx, workspace.Options{
		Paths: args, Inline: calls.Inline, Exec: calls.Exec, Expressions: expression.Compile, Dial: routes.Dial, Routed: routes.Has,
		Operator: f.openOperator, Check: controllerCheck(), Executable: executable,
		Output: func(name string) process.Output { return f.printed.of(name) },
	})
	if err != nil && ctx.Err() != nil {
		p.Code = command.Aborted
	}
	if err != nil && w != nil {
		err = command.WithHint(err, strings.Join(w.Kinds.Notes(), ""))
	}
	return w, err
}

// ShowOutput writes what hooks and programs have printed since it was called last.
func (f *Flags) ShowOutput(out io.Writer) {
	f.printed.mu.Lock()
	defer f.printed.mu.Unlock()
	_, _ = out.Write(f.printed.text) // It belongs to a failure that is reported anyway.
	f.printed.text = nil
}

// controllerCheck returns a function that says why the API server would not store a controller, by the schemas and the
// rules of the CRDs.
func controllerCheck() func(*object.Object) error {
	read := sync.OnceValues(func() (*kinds.CRDs, error) {
		definitions := crd.All()
		for i, text := range definitions {
			var err error
			if definitions[i], err = yaml.YAMLToJSON(text); err != nil {
				return nil, err
			}
		}
		return kinds.ReadCRDs(definitions...)
	})
	return func(o *object.Object) error {
		schemas, err := read()
		if err != nil {
			return err
		}
		return schemas.Check(o)
	}
}

// importLimit is how long the files of an operator in Python may take to be imported, on a slow machine too.
const importLimit = 60 * time.Second

// openOperator starts the operator in Python that a process of setpoint.yaml runs by `setpoint run`, without a cluster.
func (f *Flags) openOperator(ctx context.Context, run project.Process, kinds []served.Kind) (workspace.Operator, error) {
	options, err := f.parse(run.Command[2:], run.Dir)
	if err != nil {
		return nil, err
	}
	options.Log, options.Kinds = f.processes.Log, kinds
	if python := options.Python; python != nil {
		printed := f.printed.of(run.Name)
		python.Stdout, python.Stderr, python.Dir = printed, printed, run.Dir
		// A test that reaches a cluster is a surprise.
		python.Env = append(run.Environ(), clientcmd.RecommendedConfigPathEnvVar+"="+os.DevNull)
	}
	within, cancel := context.WithTimeoutCause(ctx, importLimit, fmt.Errorf("the operator %s was not imported within %s: look for "+
		"what its files do outside of functions, such as requests and loops", run.Name, importLimit))
	defer cancel()
	opened, err := operator.Open(within, options)
	if err != nil && within.Err() != nil {
		err = context.Cause(within)
	}
	return opened, err
}

// maxProgramOutput is how much of what programs and hooks print is kept, from the end.
const maxProgramOutput = 64 << 10

// programOutput keeps what programs and hooks print, to show it if a test fails.
type programOutput struct {
	mu   sync.Mutex
	text []byte
}

// of returns a writer for the output of a program.
func (o *programOutput) of(name string) *progress.Writer {
	return progress.NewWriter(func(line []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.text = fmt.Appendf(o.text, "%s | %s\n", name, line)
		if cut := len(o.text) - maxProgramOutput; cut > 0 {
			o.text = append([]byte("…\n"), o.text[cut+bytes.IndexByte(o.text[cut:], '\n')+1:]...)
		}
	})
}
