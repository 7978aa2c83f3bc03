package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
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
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	path := filepath.Join(s.inspectDir, p.Name+".kubeconfig") // The folder is private, and removed at the end.
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	return []string{"KUBECONFIG=" + path, "POD_NAMESPACE=" + account.Namespace}, nil
}
