package test

import (
	"bytes"
	"context"
	"errors"
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

// How long the files of an operator in Python may take to be imported, on a slow machine too, and after which time a line
// says what the tests wait for.
const (
	importLimit  = 60 * time.Second
	importNotice = 5 * time.Second
)

// opening waits for an operator in Python that starts.
type opening struct {
	name          string
	stderr        io.Writer
	limit, notice time.Duration
}

// wait calls a function with a context that ends at the limit. The error then says why.
func (o opening) wait(ctx context.Context, open func(context.Context) (workspace.Operator, error)) (workspace.Operator, error) {
	within, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	notice := time.AfterFunc(o.notice, func() {
		// Nothing depends on the line.
		_, _ = fmt.Fprintf(o.stderr, "waiting for %s to be imported, up to %s\n", o.name, o.limit)
	})
	defer notice.Stop()
	opened, err := open(within)
	if err != nil && ctx.Err() == nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s was not imported within %s: look for what its files do outside of functions, such as requests and "+
			"loops; %w", o.name, o.limit, err)
	}
	return opened, err
}

// openOperator starts the operator in Python that a process of setpoint.yaml runs by `setpoint run`, without a cluster.
func (f *testFlags) openOperator(output *programOutput, stderr io.Writer) func(context.Context, project.Process,
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
		wait := opening{"the operator " + run.Name, stderr, importLimit, importNotice}
		return wait.wait(ctx, func(ctx context.Context) (workspace.Operator, error) { return operator.Open(ctx, options) })
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
