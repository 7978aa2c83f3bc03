package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/process"
)

const (
	// readyTimeout is how long a compiled program may take until it listens.
	readyTimeout = 2 * time.Minute
	stopGrace    = time.Second
)

// programs are the local programs in the files, of which those run that serve a hook.
type programs struct {
	options Options
	all     []*program
	// operators are the processes that run operators in Python.
	operators []*program
	reaper    *process.Reaper
	running   sync.WaitGroup
	cancel    context.CancelFunc
}

// program is one program of a setpoint.yaml that replaces a Service, or runs an operator in Python.
type program struct {
	project.Process
	file    string
	process *process.Supervisor
}

func newPrograms(o Options, projects []*project.Project) (*programs, error) {
	ps := &programs{options: o, cancel: func() {}}
	free := process.FreePorts()
	for _, p := range projects {
		if err := p.Place(free, o.Executable); err != nil {
			return nil, err
		}
		for _, each := range p.Processes {
			one := &program{Process: each, file: p.File}
			if each.RunsOperator() {
				ps.operators = append(ps.operators, one)
			}
			if each.Service != nil {
				ps.all = append(ps.all, one)
			}
		}
	}
	return ps, nil
}

// start starts the programs that serve one of the addresses, and waits until they listen.
func (ps *programs) start(ctx context.Context, addresses []string) (err error) {
	needed := lists.Filter(ps.all, func(p *program) bool { return slices.ContainsFunc(addresses, p.Service.Matches) })
	if len(needed) == 0 {
		return nil
	}
	if ps.reaper, err = process.NewReaper(); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ps.cancel = cancel
	for _, p := range needed {
		var output bytes.Buffer
		if err := p.Compile(ctx, ps.reaper, &output); err != nil {
			return fmt.Errorf("%s: %w:\n%s", p.file, err, bytes.TrimSpace(output.Bytes()))
		}
		ps.run(running, p)
	}
	problems := lists.Map(needed, func(p *program) error { return p.awaitReady(ctx) })
	return errors.Join(problems...)
}

// run starts a program. It must not reach a cluster: a test that writes to one is a surprise.
func (ps *programs) run(ctx context.Context, p *program) {
	p.process = process.New(process.Options{
		Command: p.Command, Env: append([]string{"KUBECONFIG=" + os.DevNull, "SETPOINT=" + ps.options.Executable}, p.Environ()...),
		Dir:  p.Dir,
		Port: p.Port, ReadyPath: p.Ready, Output: ps.options.Output(p.Name), Reaper: ps.reaper, Grace: stopGrace,
	})
	ps.running.Go(func() { p.process.Run(ctx) })
}

func (p *program) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout,
		fmt.Errorf("nothing listens on port %d after %s; the program must listen on {port}", p.Port, readyTimeout))
	defer cancel()
	if err := p.process.WaitReady(ctx); err != nil {
		return fmt.Errorf("%s: %s: %w", p.file, p.Describe(), err)
	}
	return nil
}

// stop ends all programs.
func (ps *programs) stop() {
	ps.cancel()
	ps.running.Wait()
	if ps.reaper != nil {
		ps.reaper.Close()
	}
}

// serving returns the program for an address; nil if there is none.
func (ps *programs) serving(address string) *program {
	for _, p := range ps.all {
		if p.process != nil && p.Service.Matches(address) {
			return p
		}
	}
	return nil
}

// dial connects to a hook: to the local program in place of its Service, or to its URL.
func (ps *programs) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	p := ps.serving(address)
	switch {
	case p == nil && ps.options.Dial != nil:
		return ps.options.Dial(ctx, network, address)
	case p == nil:
		return dialer.DialContext(ctx, network, address)
	}
	if err := p.process.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("process %s (service %s): %w", p.Name, p.Service, err)
	}
	return dialer.DialContext(ctx, network, net.JoinHostPort("localhost", strconv.Itoa(p.Port)))
}

// routed reports whether dial does not connect to the address itself.
func (ps *programs) routed(address string) bool {
	return ps.serving(address) != nil || ps.options.Routed != nil && ps.options.Routed(address)
}
