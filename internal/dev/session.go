package dev

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/process"
)

const (
	// stopLimit is how long stopping may take.
	stopLimit = 2500 * time.Millisecond
	// processGrace is the time between SIGTERM and SIGKILL for processes; part of
	// stopLimit.
	processGrace = time.Second
	// readyLimit is how long a session without a command waits for its processes.
	readyLimit = 10 * time.Second
)

// session is one run of the development loop.
type session struct {
	Options
	began    time.Time
	cancel   context.CancelCauseFunc
	projects []*workspace
	locals   locals
	// unapplied are the projects whose manifests failed to apply at first.
	unapplied []string

	reaper  *process.Reaper
	cluster Cluster
	config  *rest.Config
	manager Manager
	// shared is the cluster if it is a Target; nil for one of our own.
	shared *manifest.Shared
	// inspectDir is the folder in which processes publish their inspect endpoints.
	inspectDir string
	published  publications
	// accounts are the kubeconfigs of processes with the rights of a ServiceAccount.
	accounts []*os.File
	// dashboardURL is the URL of the dashboard; "" without one.
	dashboardURL string

	background          sync.WaitGroup // goroutines that end with the context
	commandOwnsTerminal atomic.Bool
	// keyboard is nil if no keys are read.
	keyboard *keyboard
}

// foreground runs a program, which owns the terminal meanwhile.
func (s *session) foreground(ctx context.Context, args, environment []string) (int, error) {
	s.commandOwnsTerminal.Store(s.Interactive)
	defer s.commandOwnsTerminal.Store(false)
	return process.Command{
		Args: args, Env: environment,
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
		Reaper: s.reaper, Interactive: s.Interactive, Grace: processGrace,
	}.Run(ctx)
}

// environment returns the variables for processes and commands.
func (s *session) environment() []string {
	return append(s.Target.environment(), "KUBECONFIG="+s.cluster.Kubeconfig(), "SETPOINT="+s.Executable, locate.FolderEnv+"="+
		s.inspectDir, "SETPOINT_DASHBOARD="+s.dashboardURL)
}

// publications remove what was published for other commands.
type publications []func()

// keep keeps what was published until the session ends.
func (p *publications) keep(remove func(), err error) error {
	if err == nil {
		*p = append(*p, remove)
	}
	return err
}

// withdraw removes all.
func (p publications) withdraw() {
	for _, remove := range p {
		remove()
	}
}
