package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/setpoint-dev/setpoint/controlplane/internal/datadir"
	"github.com/setpoint-dev/setpoint/controlplane/internal/kubeconfig"
	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
	"github.com/setpoint-dev/setpoint/controlplane/internal/pki"
)

const (
	adminUser = "setpoint-admin"
	kwokUser  = "setpoint:kwok"
	// serviceIP is the first address of serviceRange: the "kubernetes" Service.
	serviceIP    = "10.96.0.1"
	serviceRange = "10.96.0.0/16"
	podRange     = "10.64.0.0/12"
)

// users by component: who each one is to the API server. Kubernetes comes with
// roles for the first two; authorizeKwok sees to the third.
func users() map[string]string {
	return map[string]string{
		names.ControllerManager: "system:kube-controller-manager",
		names.Scheduler:         "system:kube-scheduler",
		names.Kwok:              kwokUser,
	}
}

// credentials are the certificates, keys and kubeconfigs in a data directory.
type credentials struct {
	dir *datadir.Dir
	// server is the URL of the API server.
	server string
}

// write makes the certificates and the kubeconfigs. The authority and
// the key of the service accounts stay with the data directory; what they sign is
// made anew each time, so that it never expires in use.
func (c credentials) write() (*pki.Authority, error) {
	authority, err := c.authority("ca", "setpoint")
	if err != nil {
		return nil, err
	}
	if _, err := c.loadOrCreate("service-accounts", pki.SigningKey); err != nil {
		return nil, err
	}
	if err := c.writeFrontProxy(); err != nil {
		return nil, err
	}
	if err := c.writeServing(authority); err != nil {
		return nil, err
	}
	for component, user := range users() {
		pair, err := authority.Client(user)
		if err != nil {
			return nil, err
		}
		if err := datadir.WriteFile(c.clientConfig(component), c.encode(authority, user, pair)); err != nil {
			return nil, err
		}
	}
	return authority, nil
}

// frontProxy names the authority and the client certificate with which the API
// server passes requests on to API servers that extend it.
const frontProxy = "front-proxy"

func (c credentials) writeFrontProxy() error {
	authority, err := c.authority(frontProxy+"-ca", "setpoint-front-proxy")
	if err != nil {
		return err
	}
	pair, err := authority.Client(frontProxy)
	if err != nil {
		return err
	}
	return c.writePair(frontProxy, pair)
}

func (c credentials) writeServing(authority *pki.Authority) error {
	hosts := map[string][]string{
		names.APIServer: {"kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local", serviceIP},
		names.ControllerManager: nil,
		names.Scheduler:         nil,
	}
	for component, names := range hosts {
		pair, err := authority.Server(component, append(names, "localhost", "127.0.0.1")...)
		if err != nil {
			return err
		}
		if err := c.writePair(component, pair); err != nil {
			return err
		}
	}
	return nil
}

func (c credentials) encode(authority *pki.Authority, user string, pair pki.Pair) []byte {
	return kubeconfig.Encode(kubeconfig.Entry{
		Server:    c.server,
		Authority: authority.Cert,
		User:      user,
		Client:    pair,
	})
}

func (c credentials) authority(file, name string) (*pki.Authority, error) {
	pair, err := c.loadOrCreate(file, func() (pki.Pair, error) {
		authority, err := pki.NewAuthority(name)
		if err != nil {
			return pki.Pair{}, err
		}
		return authority.Pair, nil
	})
	if err != nil {
		return nil, err
	}
	authority, err := pki.LoadAuthority(pair)
	if err != nil {
		return nil, fmt.Errorf("data directory is damaged: %s: %w", c.certFile(file), err)
	}
	return authority, nil
}

// loadOrCreate reads a pair of files, or makes them if neither is there. One without
// the other is damage: to make a new pair would lock existing clients out.
func (c credentials) loadOrCreate(name string, make func() (pki.Pair, error)) (pki.Pair, error) {
	cert, certErr := os.ReadFile(c.certFile(name))
	key, keyErr := os.ReadFile(c.keyFile(name))
	switch {
	case certErr == nil && keyErr == nil:
		return pki.Pair{Cert: cert, Key: key}, nil
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
		pair, err := make()
		if err != nil {
			return pki.Pair{}, err
		}
		return pair, c.writePair(name, pair)
	}
	return pki.Pair{}, fmt.Errorf("data directory is damaged: read key pair: %w", errors.Join(certErr, keyErr))
}

func (c credentials) writePair(name string, pair pki.Pair) error {
	return errors.Join(
		datadir.WriteFile(c.certFile(name), pair.Cert),
		datadir.WriteFile(c.keyFile(name), pair.Key),
	)
}

func (c credentials) certFile(name string) string { return c.dir.Path("pki", name+".crt") }

func (c credentials) keyFile(name string) string { return c.dir.Path("pki", name+".key") }

func (c credentials) clientConfig(component string) string {
	return c.dir.Path("run", component+".kubeconfig")
}
