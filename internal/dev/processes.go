package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// compileAll compiles all programs before the cluster boots, because compiling uses all
// CPUs. No timeout includes it. A program that does not compile is compiled again when a
// file changes, unless a command needs it.
func (s *session) compileAll(ctx context.Context) error {
	var problems []error
	for _, l := range s.locals {
		if len(l.Build) == 0 {
			continue
		}
		l.compiled = l.compile(ctx, s.reaper, s.Reporter, 0)
		if problems = append(problems, l.compiled); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(s.Command) == 0 {
		return nil
	}
	return errors.Join(problems...)
}

// prepareProcesses creates all processes before any is started, because the manager may call any of them at any time.
func (s *session) prepareProcesses(ctx context.Context) (err error) {
	for _, l := range s.locals {
		if l.output, err = newRecentOutput(s.Reporter, s.ProcessLogs, l.Name); err != nil {
			return err
		}
		account, err := s.accountEnv(ctx, l.Process)
		if err != nil {
			return fmt.Errorf("process %s: serviceAccountFrom: %w", l.Name, err)
		}
		l.process = process.New(process.Options{
			Prepare: func(ctx context.Context) error { return l.prepare(ctx, s.reaper, s.Reporter) },
			Command: l.Command, Env: slices.Concat(s.environment(), account, l.Environ()), Dir: l.Dir,
			Port: l.Port, ReadyPath: l.Ready,
			Output: l.output, Reaper: s.reaper, Grace: processGrace,
			Notify:   func(e process.Event) { s.handleEvent(l, e) },
			Hopeless: func(code int) bool { return l.RunsOperator() && code == operator.ImportCode },
		})
	}
	return nil
}

// accountEnv gives a process the rights of the ServiceAccount in its manifests: it returns the variables of
// a pod in that namespace, with a kubeconfig that has a token. A process without one gets none.
func (s *session) accountEnv(ctx context.Context, p project.Process) ([]string, error) {
	if p.ServiceAccountFrom == "" {
		return nil, nil
	}
	account, err := manifest.ApplyRights(ctx, s.config, s.shared, p.ServiceAccountFrom)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	seconds := int64(tokenLifetime.Seconds())
	issued, err := client.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name,
		&authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a token of the ServiceAccount %s: %w", account, err)
	}
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	current := config.Contexts[config.CurrentContext]
	current.AuthInfo, current.Namespace = account.String(), account.Namespace
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{account.String(): {Token: issued.Status.Token}}
	file, err := writeLocked(s.inspectDir, p.Name, config)
	if err != nil {
		return nil, err
	}
	s.accounts = append(s.accounts, file)
	return []string{"KUBECONFIG=" + file.Name(), "POD_NAMESPACE=" + account.Namespace}, nil
}

// tokenLifetime outlasts a session.
const tokenLifetime = 30 * 24 * time.Hour

func (s *session) startProcesses(ctx context.Context) error {
	for _, l := range s.locals {
		l.firstStart = make(chan error, 1)
		phase := s.Reporter.Phase("process " + l.Name)
		s.background.Go(func() { l.process.Run(ctx) })
		s.background.Go(func() {
			err := l.process.WaitReady(ctx)
			if err != nil {
				err = l.failure(err)
			}
			phase.End(err, "") // Its error is shown by the caller.
			l.firstStart <- err
		})
	}
	return nil
}

// awaitProcesses waits until all processes are ready or have failed. A failed or slow
// process is an error only for a command; otherwise it can be fixed while the session runs.
func (s *session) awaitProcesses(ctx context.Context) error {
	limit := readyLimit
	if len(s.Command) > 0 {
		limit = s.ReadyTimeout
	}
	timeout := make(<-chan time.Time)
	if limit > 0 {
		timeout = time.After(limit)
	}
	var problems []error
	for _, l := range s.locals {
		select {
		case err := <-l.firstStart:
			problems = append(problems, err)
			continue
		case <-timeout:
			if len(s.Command) > 0 {
				return l.failure(fmt.Errorf("not ready after %s (--ready-timeout)", limit))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		break
	}
	if len(s.Command) == 0 {
		return nil
	}
	return errors.Join(problems...)
}

// handleEvent shows an event of a process and notifies the manager.
func (s *session) handleEvent(l *localProcess, e process.Event) {
	setDown := func(err error) {
		l.down = true
		l.eachAddress(func(address string) { s.manager.HookDown(address, l.unreachable(err)) })
	}
	switch {
	case e.Died != nil:
		l.output.showTail()
		restart := "when one of its files changes"
		if e.Retry > 0 {
			restart = "in " + progress.FormatDuration(e.Retry) + ", or " + restart
		}
		s.Reporter.Problem(fmt.Errorf("process %s %w; restarting %s", l.Name, e.Died, restart))
		l.exit.Store(&processes.Exit{Process: l.Name, Text: e.Died.Error(), At: time.Now()})
		setDown(e.Died)
	case e.PrepareFailed != nil:
		s.Reporter.Problem(fmt.Errorf("%w; it is compiled again when one of its files changes", e.PrepareFailed))
		setDown(e.PrepareFailed)
	case e.Slow:
		slow := fmt.Errorf("running, but nothing listens on port %d after %s", l.Port, progress.FormatDuration(e.Took))
		s.Reporter.Warning("process %s is %s", l.Name, slow)
		setDown(slow)
	case e.Ready:
		l.exit.Store(nil)
		if e.Cause != "" {
			s.Reporter.Event(e.Took, "%s: restarted %s", e.Cause, l.Name)
		}
		if e.Cause != "" || l.down {
			l.down = false
			l.eachAddress(s.manager.HookRestarted)
		}
	}
}
