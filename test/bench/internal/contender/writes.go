package contender

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// writes makes only the requests that every contender has to make: the lower bound of
// all times. It runs in the load generator's process.
type writes struct {
	workers    int
	kubeconfig string
	client     *cluster.Client
}

func (*writes) Name() string { return Writes }

func (c *writes) Start(context.Context, Settings) (took time.Duration, err error) {
	c.client, err = cluster.Connect(c.kubeconfig)
	return 0, err
}

func (*writes) Stop() error  { return nil }
func (*writes) Close() error { return nil }

func (c *writes) Write(ctx context.Context, w load.Work, created bool, uid ParentUID) error {
	return load.Each(ctx, w.Parents, c.workers, func(ctx context.Context, i int) error {
		parent, err := uid(ctx, i)
		if err != nil {
			return err
		}
		for j := range w.Children {
			if err := c.writeChild(ctx, w, childOf{i, j, parent}, created); err != nil {
				return err
			}
		}
		path := load.ThingsPath(w.Namespace) + "/" + thing.Name(i) + "/status"
		return c.client.Merge(ctx, path, fmt.Appendf(nil,
			`{"status":{"ready":%d,"value":"%s"}}`, w.Children, w.Value(i)))
	})
}

// childOf is the j-th child of the i-th parent.
type childOf struct {
	i, j      int
	parentUID string
}

func (c *writes) writeChild(ctx context.Context, w load.Work, of childOf, created bool) error {
	parent := thing.Name(of.i)
	path, name := load.ChildrenPath(w.Namespace), thing.ChildName(parent, of.j)
	if created {
		return c.client.Merge(ctx, path+"/"+name, fmt.Appendf(nil, `{"data":{"%s":"%s"}}`, thing.ValueKey, w.Value(of.i)))
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","ownerReferences":[`+
		`{"apiVersion":"%s/%s","kind":"%s","name":"%s","uid":"%s","controller":true,"blockOwnerDeletion":true}]},"data":{"%s":"%s"}}`,
		name, thing.Group, thing.Version, thing.Kind, parent, of.parentUID, thing.ValueKey, w.Value(of.i))
	_, err := c.client.Create(ctx, path, body)
	return err
}
