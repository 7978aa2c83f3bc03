package dev

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// writeLocked writes a kubeconfig with credentials into a private folder. It is locked as long as it is in use.
func writeLocked(folder, name string, config *clientcmdapi.Config) (*os.File, error) {
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	file, err := os.CreateTemp(folder, name+"-*"+kubeconfigSuffix) // 0600.
	if err != nil {
		return nil, fmt.Errorf("create kubeconfig: %w", err)
	}
	if err = locate.Lock(file); err == nil { // One that has a text and no lock is left.
		_, err = file.Write(text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write kubeconfig: %w", err), removeLocked(file))
	}
	return file, nil
}

// removeLocked removes a kubeconfig. A user may have done so before.
func removeLocked(file *os.File) error {
	err := os.Remove(file.Name())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, file.Close())
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

// kubeconfigSuffix ends the names of kubeconfigs with credentials, which are locked as long as they are in use.
const kubeconfigSuffix = ".kubeconfig"
