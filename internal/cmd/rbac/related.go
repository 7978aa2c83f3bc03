package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
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
