// Package kubeconfig writes the files by which clients find and enter the
// cluster. It reads only what it needs to leave the files of others alone: clients of ours get their parts directly.
package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

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

const (
	// dialTimeout is how long a cluster on this machine has to accept a connection.
	dialTimeout = time.Second
	// endTimeout is how long the cluster of a killed process takes to end.
	endTimeout = 3 * time.Second
)

// CheckReplaceable rejects a path with a kubeconfig not written by Setpoint, which may be
// the only access to another cluster, and one of a cluster that still runs.
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
	server := serverIn(text)
	for begin := time.Now(); runs(server); <-time.After(endTimeout / 30) {
		if time.Since(begin) > endTimeout {
			return fmt.Errorf("kubeconfig %s is that of a cluster that runs at %s: choose another file with --kubeconfig, or stop that "+
				"cluster; "+
				"delete the file if something else is at that address", path, server)
		}
	}
	return nil
}

// Remove removes the kubeconfig of a server. A file with another one is that of another cluster, and stays.
func Remove(path, server string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && serverIn(text) != server {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	return os.Remove(path)
}

// serverIn returns the address in a file that Encode has rendered, also if extensions were added; empty for none.
func serverIn(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if server, is := strings.CutPrefix(strings.TrimSpace(line), "server: "); is {
			return server
		}
	}
	return ""
}

// runs reports whether something accepts connections at the address of an API server on this machine.
func runs(server string) bool {
	address, err := url.Parse(server)
	if err != nil || !net.ParseIP(address.Hostname()).IsLoopback() {
		return false
	}
	connection, err := net.DialTimeout("tcp", address.Host, dialTimeout)
	if err != nil {
		return false
	}
	_ = connection.Close() // It only had to open.
	return true
}
