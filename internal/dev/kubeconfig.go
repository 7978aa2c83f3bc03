package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// tokenLifetime outlasts a session.
const tokenLifetime = 30 * 24 * time.Hour

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
		starting := s.withdraw
		s.withdraw = nil
		err = publishSession(s, path)
		starting.all()
	}
	if err != nil {
		s.Reporter.Warning("other commands need --kubeconfig %s: %v", s.cluster.Kubeconfig(), err)
	}
	return nil
}

func publishSession(s *session, kubeconfig string) error {
	started, err := os.Getwd()
	if err != nil {
		return err
	}
	return s.withdraw.keep(locate.PublishSession(locate.DevSession{
		PID: os.Getpid(), Started: started, Kubeconfig: kubeconfig,
		Command: strings.Join(append([]string{s.Program, "dev"}, s.Paths...), " "),
		Folders: lists.Map(s.projects, func(w *workspace) string { return w.Dir }),
	}))
}

// withdrawals remove what was published for other commands.
type withdrawals []func()

// all removes all.
func (w withdrawals) all() {
	for _, withdraw := range w {
		withdraw()
	}
}

// keep keeps what was published until the session ends.
func (w *withdrawals) keep(withdraw func(), err error) error {
	if err == nil {
		*w = append(*w, withdraw)
	}
	return err
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
