package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// declaredRelated returns the kinds of --related.
func (r *rbacRun) declaredRelated(ctx context.Context) ([]object.Resource, error) {
	var all []object.Resource
	for _, word := range r.related {
		kind, err := r.relatedKind(ctx, word)
		if err != nil {
			return nil, err
		}
		all = append(all, kind)
	}
	return all, nil
}

func (r *rbacRun) relatedKind(ctx context.Context, word string) (object.Resource, error) {
	if r.offline == nil {
		kind, err := r.client.Kind(ctx, word)
		return resourceOf(kind), err
	}
	kind, err := r.offline.kinds.Named(ctx, word)
	if err != nil {
		return kind, command.UsageErrorf("--related: %w", err)
	}
	return kind, nil
}

func resourceOf(kind object.Kind) object.Resource {
	return object.Resource{Group: kind.Group, Version: kind.Version, Plural: kind.Plural, Kind: kind.Kind, Namespaced: kind.Namespaced}
}

// relatedSeen adds the kinds that customize hooks have selected in running processes.
type relatedSeen struct {
	*rbacRun
	read    bool
	running []processes.RunningController
	err     error
}

// add returns what a controller needs with the kinds that its customize hook has selected, and
// says in a comment where these are from.
func (s *relatedSeen) add(ctx context.Context, declared *object.Object, needs rbac.Controller, related []object.Resource) (rbac.Controller,
	error) {
	if !s.read {
		s.read = true
		s.running, s.err = s.processes(ctx)
	}
	var kinds, processes []string
	all := slices.Clone(related)
	for _, one := range s.running {
		if one.Name != needs.Name {
			continue
		}
		processes = append(processes, one.Process)
		for _, kind := range one.RelatedKinds {
			all, kinds = append(all, resourceOf(kind)), append(kinds, kind.Resource())
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	s.grant.Comments = append(s.grant.Comments, fmt.Sprintf("%s: its customize hook selects kinds at run time. %s",
		needs.Name, s.source(kinds, processes)))
	needs, _, err := s.needs.Of(ctx, declared, all)
	return needs, err
}

// source says which kinds a customize hook selects, and how that is known.
func (s *relatedSeen) source(kinds, processes []string) string {
	from := "No process that runs it was read."
	switch {
	case s.err != nil:
		from = "No process was read: " + output.Clean(failure.Text(s.err)) + "."
	case len(kinds) > 0:
		from = "Watched by " + strings.Join(processes, ", ") + ": " + strings.Join(kinds, ", ") + "."
	case len(processes) > 0:
		from = "Watched by " + strings.Join(processes, ", ") + ": none yet."
	}
	if len(s.related) > 0 {
		return from + " By --related: " + strings.Join(s.related, ", ") + "."
	}
	return from + " Add others with --related KIND."
}

// processes returns the controllers of running processes.
func (s *relatedSeen) processes(ctx context.Context) ([]processes.RunningController, error) {
	session, err := s.Open(ctx, s.Invocation)
	if err != nil {
		return nil, err
	}
	return session.RunningControllers(ctx)
}

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
