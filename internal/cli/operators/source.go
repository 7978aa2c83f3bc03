// Package operators has the flags that select an operator in Python, or another process that declares its controllers.
package operators

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/python"
)

// Source are the flags that select an operator in Python, or another process that declares its controllers.
type Source struct {
	Python, Modules []string
	Name            string
	Interpreter     string
	Remote          operator.Remote
}

// Register adds the flags, except the one of the name.
func (f *Source) Register(set *pflag.FlagSet) {
	set.StringArrayVar(&f.Python, "python", nil, "`file` or module of an operator in Python to run instead of the controllers of the "+
		"cluster (repeatable; further files are arguments)")
	set.StringArrayVarP(&f.Modules, "module", "m", nil, "`module` of an operator in Python (repeatable)")
	set.StringVar(&f.Interpreter, "python-interpreter", "", "`path` of Python 3.9 or newer (default: that of $VIRTUAL_ENV, or python3)")
	set.StringVar(&f.Remote.URL, "operator", "",
		"`URL` of an operator that runs already, such as http://127.0.0.1:8000 or unix:///run/operator/socket")
	set.StringVar(&f.Remote.TokenFile, "operator-token-file", "",
		"with --operator: `file` with the token that it requires, the one of its --token-file")
}

// Given reports whether there is an operator to run.
func (f *Source) Given() bool { return len(f.Python)+len(f.Modules) > 0 || f.Remote.URL != "" }

// Parse returns the files and modules of --python, -m and the arguments.
func (f *Source) Parse(files []string) (operator.Python, error) {
	source, err := operator.ParsePython(append(append([]string(nil), f.Python...), files...), f.Modules)
	if err != nil {
		return source, err
	}
	source.Name, source.Interpreter, source.Package = f.Name, f.Interpreter, python.Package
	source.Executable, err = os.Executable()
	return source, err
}

// Describe returns an operator without running it. Files are imported, but no handler is called.
func (f *Source) Describe(ctx context.Context, in manager.Cluster, from client.ClusterFlags, files []string,
	stderr io.Writer) (*operator.Operator, error) {
	o := operator.Options{Config: in.Config, Log: slog.New(slog.DiscardHandler), Remote: f.Remote}
	if o.Remote.URL != "" {
		return operator.Describe(ctx, o)
	}
	source, err := f.Parse(files)
	if err != nil {
		return nil, command.UsageError(err)
	}
	source.Kubeconfig = operator.Kubeconfig{File: from.Kubeconfig, Context: from.Context}
	source.Stdout, source.Stderr = stderr, stderr // What a script prints is no part of the output.
	o.Python = &source
	return operator.Describe(ctx, o)
}

// CheckDescribed checks the flags of an operator that is not run.
func (f *Source) CheckDescribed(files []string) error {
	switch {
	case f.Remote.URL == "" && f.Remote.TokenFile != "":
		return errors.New("--operator-token-file requires --operator")
	case f.Remote.URL == "":
		return nil
	case len(files)+len(f.Python)+len(f.Modules) > 0:
		return errors.New("--operator excludes files and modules")
	}
	return f.Remote.Check()
}
