package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
)

func (c *Cluster) etcdReadyFile() string { return c.dir.Path("run", "etcd.ready") }

func (c *Cluster) etcdReady(context.Context) error {
	_, err := os.Stat(c.etcdReadyFile())
	return err
}

// ready asks a component itself.
func (c *Cluster) ready(component string) func(context.Context) error {
	path := "/healthz"
	if component == names.APIServer {
		path = "/readyz"
	}
	return func(ctx context.Context) error { return c.admin.Get(ctx, c.url(component)+path, nil) }
}

// controllersReady holds when the controllers have shown that they work: the
// default namespace has the ServiceAccount without which no pod is admitted.
func (c *Cluster) controllersReady(ctx context.Context) error {
	if err := c.ready(names.ControllerManager)(ctx); err != nil {
		return err
	}
	return c.admin.Get(ctx, c.Address()+"/api/v1/namespaces/default/serviceaccounts/default", nil)
}

// nodesReady holds when every node of ours takes pods.
func (c *Cluster) nodesReady(ctx context.Context) error {
	var nodes nodeList
	if err := c.admin.Get(ctx, c.Address()+"/api/v1/nodes", &nodes); err != nil {
		return err
	}
	ready := map[string]bool{}
	for _, node := range nodes.Items {
		ready[node.Metadata.Name] = node.takesPods()
	}
	for i := range c.opts.Nodes {
		if name := nodeName(i); !ready[name] {
			return fmt.Errorf("node %s is not ready", name)
		}
	}
	if len(nodes.Items) == 0 && c.opts.Nodes > 0 {
		return errors.New("there are no nodes")
	}
	return nil
}
