// Package loop runs one process of Setpoint step by step: its real reconcile loops over a cache whose
// contents are given, and a transport that stops each run at its next request to the API server.
//
// It contains the views of a process, the delivery of events, the steps of runs, and the memory of what
// hooks responded. It copies nothing of what the loops decide. It stores no objects and chooses no order:
// package apiserver and the search do.
package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// NewProcess returns a process. What cannot be explored is left out; see Omissions.
func NewProcess(programs Programs, options Options) (*Process, error) {
	if options.Memo == nil {
		options.Memo = NewMemo()
	}
	if options.Resolve == nil {
		options.Resolve = func(_ context.Context, apiVersion, plural string) (object.Resource, error) {
			return object.Resource{}, fmt.Errorf("%s %s: the kind is not known here", apiVersion, plural)
		}
	}
	if len(programs.Compose)+len(programs.Handle) == 0 {
		return nil, errors.New("no controller to run")
	}
	p := &Process{options: options, programs: Programs{Indexes: programs.Indexes, Memory: programs.Memory}, transport: &transport{},
		calls: &callRecorder{memo: options.Memo}}
	if options.External != nil {
		p.calls.external = &externalClient{options.External, p.transport}
	}
	client, err := newClient(p.transport)
	if err != nil {
		return nil, err
	}
	p.writer = apply.New(client, apply.Options{Parallel: 1})
	p.programs.Compose = lists.Map(programs.Compose, p.prepareCompose)
	p.programs.Handle = lists.Map(programs.Handle, p.prepareHandle)
	p.findKinds()
	return p, nil
}

// prepareCompose wraps the hooks and leaves out what cannot be explored.
func (p *Process) prepareCompose(program composite.Program) composite.Program {
	program.DeletionLimit = nil // Nothing is held.
	p.omitAccount(program.Name, &program.Account)
	program.Sync = p.calls.wrapHook(program.Name+" sync", program.Sync)
	program.Finalize = p.calls.wrapHook(program.Name+" finalize", program.Finalize)
	program.Customize = p.calls.wrapCustomizer(program.Name+" customize", program.Customize)
	return program
}

// prepareHandle leaves out daemons, which run beside the loop. Delays that only pass with time are over
// at once.
func (p *Process) prepareHandle(program handler.Program) handler.Program {
	p.omitAccount(program.Name, &program.Account)
	program.Backend = handler.Backend{}
	if !slices.ContainsFunc(program.Handlers, func(h trigger.Handler) bool { return h.KeepPreviousState }) {
		p.omit("%s: handlers do not know the previous state, as after a restart", program.Name)
	}
	all := program.Handlers
	program.Handlers = make([]trigger.Handler, 0, len(all))
	for _, h := range all {
		if h.Daemon != nil {
			p.omit("%s: the daemon %s does not run", program.Name, h.Name)
			continue
		}
		if h.Debounce+h.Idle > 0 {
			p.omit("%s: the handler %s does not wait until the object is unchanged for a while", program.Name, h.Name)
			h.Debounce, h.Idle = 0, 0
		}
		if h.Every > 0 || h.Schedule != nil {
			p.omit("%s: the handler %s is not called by time", program.Name, h.Name)
		}
		h.Do = p.calls.wrapHandler(program.Name+" "+h.Name, h.Do)
		program.Handlers = append(program.Handlers, h)
	}
	return program
}

func (p *Process) omitAccount(program string, account *identity.Account) {
	if !account.IsZero() {
		p.omit("%s: requests are not limited to what the ServiceAccount %s may do", program, account)
	}
	*account = identity.Account{}
}

func (p *Process) omit(format string, args ...any) {
	p.omissions = append(p.omissions, fmt.Sprintf(format, args...))
}

// Omissions says what of the programs is not explored, for reports.
func (p *Process) Omissions() []string { return p.omissions }

func (p *Process) findKinds() {
	for i := range p.programs.Compose {
		if p.programs.Compose[i].Customize != nil {
			return // It may select any kind.
		}
	}
	p.kinds = map[object.GroupKind]bool{}
	s := p.begin(&View{})
	defer s.release()
	for _, one := range s.workers {
		for _, w := range one.Watches() {
			p.kinds[w.Resource.GroupKind()] = true
		}
	}
}

// Watches reports whether the process may watch a kind.
func (p *Process) Watches(resource object.Resource) bool {
	switch resource.GroupKind() {
	case OutageResource.GroupKind():
		return true
	case ExternalKind.GroupKind():
		return false
	}
	return p.kinds == nil || p.kinds[resource.GroupKind()]
}
