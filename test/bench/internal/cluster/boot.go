package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
)

const (
	bootDeadline = 2 * time.Minute
	// componentCommand turns the binary into a component.
	componentCommand = "_component"
)

// ControlPlane is a throw-away one, run by `setpoint dev`.
type ControlPlane struct {
	// Kubeconfig is its administrator's.
	Kubeconfig string
	process    *child.Process
}

// Boot starts the control plane that lives in the given binary and waits until
// it works. No controllers of Setpoint run in it: those are contenders. Its log
// and its kubeconfig go into dir.
func Boot(ctx context.Context, binary, dir string) (*ControlPlane, error) {
	kubeconfig := filepath.Join(dir, "admin.kubeconfig")
	process, err := child.Start(dir, "control-plane", binary, "dev", "--cluster-only", "--kubeconfig", kubeconfig)
	if err != nil {
		return nil, err
	}
	plane := &ControlPlane{Kubeconfig: kubeconfig, process: process}
	if err := plane.waitReady(ctx); err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return plane, nil
}

// waitReady waits until the controllers are at work too, as is seen from the
// ConfigMap they give each namespace: the API server alone collects no garbage.
func (p *ControlPlane) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootDeadline)
	defer cancel()
	var notYet error
	err := Poll(ctx, "the control plane", func() (bool, error) {
		if err := p.process.Err(); err != nil {
			return false, err
		}
		notYet = p.checkReady(ctx)
		return notYet == nil, nil
	})
	if err != nil {
		return errors.Join(err, notYet)
	}
	return nil
}

func (p *ControlPlane) checkReady(ctx context.Context) error {
	admin, err := Connect(p.Kubeconfig)
	if err != nil {
		return err
	}
	_, err = admin.Get(ctx, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
	return err
}

// Processors is the processor time that each component has used so far, by its
// name. Components are the binary's own children, which say what they are in
// their second argument.
func (p *ControlPlane) Processors() (map[string]time.Duration, error) {
	children, err := procfs.Children(p.process.PID())
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{}
	for _, c := range children {
		if len(c.Args) < 3 || c.Args[1] != componentCommand {
			continue
		}
		if used[c.Args[2]], err = procfs.CPU(c.PID); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// Stop ends the control plane and waits until it is gone.
func (p *ControlPlane) Stop() error { return p.process.Stop() }
