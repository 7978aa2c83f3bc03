package offline

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/served"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

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
