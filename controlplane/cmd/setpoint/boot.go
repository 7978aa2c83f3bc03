package main

import (
	"context"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/internal/dev"
)

// cluster is a controlplane.Cluster as the dev loop sees it.
type cluster struct{ *controlplane.Cluster }

// Components lists what the control plane is made of.
func (c cluster) Components() []dev.Component {
	var all []dev.Component
	for _, component := range c.Cluster.Components() {
		all = append(all, dev.Component{Name: component.Name, Log: component.Log})
	}
	return all
}

// boot starts a control plane for the dev loop.
func boot(ctx context.Context, o dev.BootOptions) (dev.Cluster, error) {
	c, err := controlplane.StartAPI(ctx, controlplane.Options{
		DataDir: o.DataDir, Kubeconfig: o.Kubeconfig, KubernetesBinaries: o.KubernetesBinaries, Progress: o.Progress, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	return cluster{c}, nil
}
