// Package cluster is everything the bench knows of Kubernetes: a client that
// sends and receives bytes, the control plane it runs on, the identity that
// contenders act as, and the count of the requests made under it.
//
// What is created, and what it means, is the business of the rooms above.
package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// fieldManager owns what the bench applies.
const fieldManager = "setpoint-bench"

// Client sends requests to one API server as one user, without a rate limit.
type Client struct {
	config *rest.Config
	rest   rest.Interface
}

// Connect reads a kubeconfig. It refuses API servers that are not on this
// machine: the load is not for anybody else.
func Connect(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	if err := refuseRemote(config.Host); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.UserAgent = fieldManager
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return &Client{config: config, rest: client}, nil
}

func refuseRemote(server string) error {
	address, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("server %q: %w", server, err)
	}
	host := address.Hostname()
	if host == "localhost" || net.ParseIP(host).IsLoopback() {
		return nil
	}
	return fmt.Errorf("server %s is not on loopback; the bench runs against this machine only", server)
}

// Create posts one object and returns it as stored.
func (c *Client) Create(ctx context.Context, path string, body []byte) ([]byte, error) {
	stored, err := c.rest.Post().AbsPath(path).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("create in %s: %w", path, err)
	}
	return stored, nil
}

// DryRun posts one object that is not stored, and returns it as it would have been.
func (c *Client) DryRun(ctx context.Context, path string, body []byte) ([]byte, error) {
	shown, err := c.rest.Post().AbsPath(path).Param("dryRun", "All").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("create in %s: %w", path, err)
	}
	return shown, nil
}

// Merge sends a JSON merge patch.
func (c *Client) Merge(ctx context.Context, path string, patch []byte) error {
	_, err := c.rest.Patch(types.MergePatchType).AbsPath(path).Body(patch).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("patch %s: %w", path, err)
	}
	return nil
}

// Apply makes an object what the given YAML or JSON says.
func (c *Client) Apply(ctx context.Context, path string, object []byte) error {
	_, err := c.rest.Patch(types.ApplyPatchType).AbsPath(path).
		Param("fieldManager", fieldManager).Param("force", "true").Body(object).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("apply %s: %w", path, err)
	}
	return nil
}

// Delete deletes an object in the background, or a whole collection. What is
// not there counts as deleted.
func (c *Client) Delete(ctx context.Context, path string) error {
	_, err := c.rest.Delete().AbsPath(path).
		Param("propagationPolicy", "Background").Do(ctx).Raw()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// Get reads one path.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	body, err := c.rest.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	return body, nil
}

// Stream opens a path for reading as it comes. The caller closes it.
func (c *Client) Stream(ctx context.Context, path string, query map[string]string) (io.ReadCloser, error) {
	req := c.rest.Get().AbsPath(path)
	for key, value := range query {
		req.Param(key, value)
	}
	stream, err := req.Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return stream, nil
}
