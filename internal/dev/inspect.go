package dev

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// prepareInspection creates the folder in which processes publish their inspect endpoints,
// and refers to it in the kubeconfig.
func (s *session) prepareInspection(context.Context) error {
	path := s.cluster.Kubeconfig()
	folder := filepath.Dir(path) // Sessions against one cluster share it.
	if s.Target == nil {
		var err error
		if folder, err = os.MkdirTemp("", "setpoint-inspect-"); err != nil { // 0700.
			return fmt.Errorf("create the inspect folder: %w", err)
		}
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

// headerComments returns the comments at the top, which mark a kubeconfig that may be
// overwritten.
func headerComments(text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		kept = append(kept, line...)
	}
	return kept
}

// writeAtomically replaces a private file in one step, because others may be waiting for
// it.
func writeAtomically(path string, text []byte) error {
	written := path + ".new"
	if err := os.WriteFile(written, text, 0o600); err != nil {
		return err
	}
	return os.Rename(written, path)
}
