package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// prepareInspection creates the folder in which processes publish their inspect endpoints, and refers to it in the
// kubeconfig. Sessions against one cluster share the folder of their kubeconfigs, which refer to it already.
func (s *session) prepareInspection(context.Context) error {
	path := s.cluster.Kubeconfig()
	if s.Target != nil {
		s.inspectDir = filepath.Dir(path)
		return nil
	}
	folder, err := os.MkdirTemp("", inspectPrefix) // 0700.
	if err != nil {
		return fmt.Errorf("create the inspect folder: %w", err)
	}
	s.inspectDir = folder
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if err := locate.SetKubeconfigFolder(config, folder); err != nil {
		return err
	}
	pointing, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return writeAtomically(path, append(headerComments(text), pointing...))
}

// publish lets other commands find the session by their working directory. It runs without that, too.
func (s *session) publish(context.Context) error {
	path, err := filepath.Abs(s.cluster.Kubeconfig())
	if err == nil {
		starting := s.published
		s.published = nil
		err = s.publishAs(path)
		starting.withdraw()
	}
	if err != nil {
		s.Reporter.Warning("other commands need --kubeconfig %s: %v", s.cluster.Kubeconfig(), err)
	}
	return nil
}

func (s *session) publishAs(kubeconfig string) error {
	started, err := os.Getwd()
	if err != nil {
		return err
	}
	return s.published.keep(locate.PublishSession(locate.DevSession{
		PID: os.Getpid(), Started: started, Kubeconfig: kubeconfig,
		Command: strings.Join(append([]string{s.Program, "dev"}, s.Paths...), " "),
		Folders: lists.Map(s.projects, func(w *workspace) string { return w.Dir }),
	}))
}
