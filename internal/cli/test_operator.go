package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/served"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// openOperator starts the operator in Python that a process of setpoint.yaml runs by `setpoint run`, without a cluster.
func (f *testFlags) openOperator(output *programOutput) func(context.Context, project.Process, []served.Kind) (workspace.Operator, error) {
	return func(ctx context.Context, run project.Process, kinds []served.Kind) (workspace.Operator, error) {
		flags := newRunFlags()
		command := &cobra.Command{Use: "run"}
		flags.register(command)
		if err := command.ParseFlags(run.Command[2:]); err != nil {
			return nil, err
		}
		files := inFolder(run.Dir, command.Flags().Args())
		flags.operator.python = inFolder(run.Dir, flags.operator.python)
		options, _, err := flags.operatorOptions(files)
		if err != nil {
			return nil, err
		}
		options.Log, options.Kinds = f.processes.log, kinds
		if python := options.Python; python != nil {
			printed := output.of(run.Name)
			python.Stdout, python.Stderr, python.Dir = printed, printed, run.Dir
			// A test that reaches a cluster is a surprise.
			python.Env = append(run.Environ(), clientcmd.RecommendedConfigPathEnvVar+"="+os.DevNull)
		}
		return operator.Open(ctx, options)
	}
}

// inFolder returns files that are in a folder with their paths; other arguments are modules.
func inFolder(dir string, args []string) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = arg
		if path := filepath.Join(dir, arg); !filepath.IsAbs(arg) {
			if _, err := os.Stat(path); err == nil {
				all[i] = path
			}
		}
	}
	return all
}
