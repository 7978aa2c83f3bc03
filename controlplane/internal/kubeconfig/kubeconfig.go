// Package kubeconfig writes the files by which clients find and enter the
// cluster. It never reads them: clients of ours get their parts directly.
package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/setpoint-dev/setpoint/controlplane/internal/pki"
)

// Entry is what a client needs to get in.
type Entry struct {
	Server    string
	Authority []byte // PEM
	User      string
	Client    pki.Pair
}

// signature marks the files we may overwrite.
const signature = "# Written by setpoint for a local cluster; it is rewritten when that cluster starts.\n"

// Encode renders a kubeconfig.
func Encode(e Entry) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `%sapiVersion: v1
kind: Config
clusters:
- name: setpoint
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: setpoint
  context: {cluster: setpoint, user: "%[4]s"}
current-context: setpoint
`, signature, e.Server, base64.StdEncoding.EncodeToString(e.Authority), e.User,
		base64.StdEncoding.EncodeToString(e.Client.Cert), base64.StdEncoding.EncodeToString(e.Client.Key))
	return out.Bytes()
}

// CheckReplaceable rejects a path with a kubeconfig not written by Setpoint, which may be
// the only access to another cluster.
func CheckReplaceable(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if len(bytes.TrimSpace(text)) > 0 && !bytes.HasPrefix(text, []byte(signature)) {
		return fmt.Errorf("kubeconfig %s was not written by us and would be lost: choose another file", path)
	}
	return nil
}
