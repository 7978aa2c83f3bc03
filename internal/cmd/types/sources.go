package types

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
	"github.com/setpoint-dev/setpoint/internal/typegen"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// typeSources finds schemas: in CRDs of the files, in the cluster, in the Go types of Kubernetes.
type typeSources struct {
	files []schema.Served
	// cluster is nil without a cluster; why is then the reason.
	cluster *userclient.Client
	why     error
}

func newTypeSources(f *typesFlags, objects []*object.Object) (*typeSources, error) {
	s := &typeSources{why: errors.New("--offline reads no cluster")}
	kinds, err := workspace.NewKinds(objects)
	if err != nil {
		return nil, err
	}
	s.files = kinds.Defined()
	if f.offline {
		return s, nil
	}
	user, err := f.cluster.Connect()
	switch {
	case errors.Is(err, manager.ErrNoCluster):
		s.why = err
	case err != nil:
		return nil, err
	default:
		s.cluster = user.API
	}
	return s, nil
}

// inFiles returns the kinds of CRDs in the files, each in the version that is stored.
func (s *typeSources) inFiles() (all []typegen.Resource) {
	for i := range s.files {
		if s.files[i].Stored {
			all = append(all, typegen.Resource{APIVersion: s.files[i].APIVersion(), Plural: s.files[i].Plural})
		}
	}
	return all
}

// find returns the kind of a resource from the first source that has it.
func (s *typeSources) find(ctx context.Context, r typegen.Resource) (typegen.Kind, error) {
	at := slices.IndexFunc(s.files, func(served schema.Served) bool {
		return served.APIVersion() == r.APIVersion && served.Plural == r.Plural
	})
	if at >= 0 {
		return typegen.Kind{Kind: s.files[at].Kind, Schema: s.files[at].Schema, Custom: true}, nil
	}
	if s.cluster != nil {
		kind, err := s.inCluster(ctx, r)
		if !errors.Is(err, userclient.ErrUnreachable) {
			return kind, err
		}
		s.cluster, s.why = nil, err // Do not wait for another timeout.
	}
	return s.builtIn(r)
}

// inCluster returns a kind that the API server serves. One without a schema has untyped fields.
func (s *typeSources) inCluster(ctx context.Context, r typegen.Resource) (typegen.Kind, error) {
	kinds, err := s.cluster.Kinds(ctx)
	if err != nil {
		return typegen.Kind{}, err
	}
	at := slices.IndexFunc(kinds, func(k object.Kind) bool {
		return k.APIVersion() == r.APIVersion && k.Plural == r.Plural
	})
	if at < 0 {
		return typegen.Kind{}, notFound("the cluster does not serve it, and the files have no CRD of it")
	}
	kind := typegen.Kind{Kind: kinds[at]}
	kind.Custom = workspace.FindBuiltIn(r.APIVersion, r.Plural) == nil
	kind.Schema, kind.Definitions, err = s.cluster.Schema(ctx, kind.Kind)
	if errors.Is(err, failure.ErrNotFound) {
		err = nil
	}
	return kind, err
}

// builtIn returns a kind of Kubernetes by its Go type.
func (s *typeSources) builtIn(r typegen.Resource) (typegen.Kind, error) {
	if r.APIVersion == crds.Resource.APIVersion() && r.Plural == crds.Resource.Plural {
		return typegen.Kind{Kind: object.KindOf(crds.Resource)}, nil // No scheme of client-go has it.
	}
	kind := workspace.FindBuiltIn(r.APIVersion, r.Plural)
	if kind == nil {
		return typegen.Kind{}, notFound("it is no kind of Kubernetes, and the files have no CRD of it" + s.unread())
	}
	found := typegen.Kind{Kind: kind.Kind.Kind, Definitions: schema.Definitions{}}
	root := found.Definitions.AddGoType(kind.Type)
	found.Schema = &root
	return found, nil
}

func notFound(text string) error {
	return command.WithHint(errors.New(text), "add the file of its CRD, or choose a cluster that serves it by --context or --kubeconfig")
}

// unread says why no cluster was read, for messages; empty if one was.
func (s *typeSources) unread() string {
	if s.cluster != nil {
		return ""
	}
	return "; no cluster was read: " + output.Clean(failure.Text(s.why))
}
