package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/served"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// importLimit is how long the files of an operator in Python may take to be imported, on a slow machine too.
const importLimit = 60 * time.Second

// openOperator starts the operator in Python that a process of setpoint.yaml runs by `setpoint run`, without a cluster.
func (f *testFlags) openOperator(output *programOutput) func(context.Context, project.Process,
	[]served.Kind) (workspace.Operator, error) {
	return func(ctx context.Context, run project.Process, kinds []served.Kind) (workspace.Operator, error) {
		options, err := f.operatorOptions(run.Command[2:], run.Dir)
		if err != nil {
			return nil, err
		}
		options.Log, options.Kinds = f.processes.Log, kinds
		if python := options.Python; python != nil {
			printed := output.of(run.Name)
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

// show prints what was kept.
func (o *programOutput) show(out io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = out.Write(o.text) // It belongs to a failure that is reported anyway.
}
