package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The identity all contenders act as. It is a service account of its own, so
// that the API server can tell their requests from everybody else's.
const (
	systemNamespace = "bench-system"
	accountName     = "contender"
	accountPath     = "/api/v1/namespaces/" + systemNamespace + "/serviceaccounts/" + accountName
)

// tokenLifetime outlasts any run.
const tokenLifetime = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`

// CreateIdentity makes the contenders' service account, allows it everything,
// and writes a kubeconfig for it.
func CreateIdentity(ctx context.Context, admin *Client, kubeconfig string) error {
	for _, object := range []struct{ path, body string }{
		{"/api/v1/namespaces/" + systemNamespace,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + systemNamespace + `"}}`},
		{accountPath,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"` + accountName + `","namespace":"` + systemNamespace + `"}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/bench-contender",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"bench-contender"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"kind":"ServiceAccount","name":"` + accountName + `","namespace":"` + systemNamespace + `"}]}`},
	} {
		if err := admin.Apply(ctx, object.path, []byte(object.body)); err != nil {
			return err
		}
	}
	token, err := requestToken(ctx, admin)
	if err != nil {
		return err
	}
	return writeKubeconfig(admin, token, kubeconfig)
}

func requestToken(ctx context.Context, admin *Client) (string, error) {
	body, err := admin.Create(ctx, accountPath+"/token", []byte(tokenLifetime))
	if err != nil {
		return "", err
	}
	var response struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return "", fmt.Errorf("read the contenders' token: %w", err)
	}
	return response.Status.Token, nil
}

func writeKubeconfig(admin *Client, token, path string) error {
	const name = "bench"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   admin.config.Host,
		CertificateAuthority:     admin.config.CAFile,
		CertificateAuthorityData: admin.config.CAData,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write the contenders' kubeconfig: %w", err)
	}
	return nil
}
