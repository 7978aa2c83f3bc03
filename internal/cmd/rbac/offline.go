package rbac

import (
	"context"
	"errors"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// offline stands for the cluster if there is none.
type offline struct {
	// why is why there is no cluster.
	why   error
	kinds *workspace.Kinds
}

// connect finds the cluster. Controllers in files do not need one: without it, r.offline is set.
func (r *rbacRun) connect(ctx context.Context, in rbacInput) (*rest.Config, error) {
	cluster, err := r.Cluster.Find()
	if err == nil {
		r.client, err = client.New(cluster)
	}
	if r.showUsed || r.everything || len(in.names) > 0 {
		return cluster.Config, err
	}
	if err == nil {
		_, err = r.client.API.Kinds(ctx)
	}
	if !errors.Is(err, manager.ErrNoCluster) && !errors.Is(err, userclient.ErrUnreachable) {
		return cluster.Config, err
	}
	kinds, wrong := workspace.NewKinds(in.definitions)
	r.offline = &offline{why: err, kinds: kinds}
	return &rest.Config{}, wrong
}

// addCRDs says how to assume nothing.
const addCRDs = "Add their CRDs to the files to be sure."

// explain adds what was assumed to an error that may be due to it.
func (o *offline) explain(err error) error {
	if err == nil || o == nil || len(o.kinds.Assumed()) == 0 {
		return err
	}
	return command.WithHint(err, "without a cluster, "+strings.Join(o.kinds.Assumed(), ", ")+" are assumed to be namespaced. "+addCRDs)
}

// comments say what was assumed.
func (o *offline) comments(impersonates bool) []string {
	all := []string{"The cluster was not read: " + output.Clean(failure.Text(o.why)) + "."}
	if assumed := o.kinds.Assumed(); len(assumed) > 0 {
		all = append(all, "Assumed to be namespaced: "+strings.Join(assumed, ", ")+". "+addCRDs)
	}
	if impersonates {
		all = append(all, "Assumed to be older than Kubernetes 1.36: use --impersonation=constrained for a newer one.")
	}
	return all
}
