package dev

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
)

// prepareInspection makes the folder in which the engine and the processes say where they can be
// inspected, and has the kubeconfig lead there: whoever uses the cluster finds them.
func (s *session) prepareInspection(context.Context) error {
	folder, err := os.MkdirTemp("", "setpoint-inspect-") // 0700.
	if err != nil {
		return fmt.Errorf("make a folder for what can be inspected: %w", err)
	}
	s.inspectDir = folder
	path := s.cluster.Kubeconfig()
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	if err := discovery.SetKubeconfigFolder(config, folder); err != nil {
		return err
	}
	pointing, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return writeAtomically(path, append(headerComments(text), pointing...))
}

// headerComments are the comments at the top: by them a kubeconfig is known as one that may be
// written over.
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

// writeAtomically writes a private file anew, in one step: somebody may be waiting for it.
func writeAtomically(path string, text []byte) error {
	written := path + ".new"
	if err := os.WriteFile(written, text, 0o600); err != nil {
		return err
	}
	return os.Rename(written, path)
}
