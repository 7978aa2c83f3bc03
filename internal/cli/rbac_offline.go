package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// offline stands for the cluster if there is none: it knows the built-in kinds, and assumes the
// scope of others.
type offline struct {
	// why is why there is no cluster.
	why error
	// assumed are the kinds whose scope is assumed.
	assumed []string
}

// connect finds the cluster. Controllers in files do not need one: without it, r.offline is set.
func (r *rbacRun) connect(ctx context.Context, in rbacInput) (*rest.Config, error) {
	cluster, err := r.cluster.find()
	if err == nil {
		r.perms, err = newPermissions(cluster)
	}
	if r.showUsed || r.everything || len(in.names) > 0 {
		return cluster.Config, err
	}
	if err == nil {
		_, err = r.perms.api.Kinds(ctx)
	}
	if !errors.Is(err, manager.ErrNoCluster) && !errors.Is(err, userclient.ErrUnreachable) {
		return cluster.Config, err
	}
	r.offline = &offline{why: err}
	return &rest.Config{}, nil
}

// find resolves a kind by the types of Kubernetes. It assumes that kinds of other groups are
// namespaced.
func (o *offline) find(apiVersion, plural string) (object.Resource, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return object.Resource{}, err
	}
	resource := object.Resource{Group: version.Group, Version: version.Version, Plural: plural, Kind: plural, Namespaced: true, Status: true, Custom: true}
	if kind, goType, is := builtInType(version, plural); is {
		resource.Kind, resource.Namespaced, resource.Custom = kind, !object.IsClusterScoped(kind), false
		_, resource.Status = goType.FieldByName("Status")
		return resource, nil
	}
	if apiVersion == crds.Resource.APIVersion() && plural == crds.Resource.Plural {
		return crds.Resource, nil // No scheme of client-go has them.
	}
	if scheme.Scheme.IsVersionRegistered(version) {
		return resource, fmt.Errorf("%s of %s: %w", plural, apiVersion, compile.ErrNotServed)
	}
	if name := resource.String(); !slices.Contains(o.assumed, name) {
		o.assumed = append(o.assumed, name)
	}
	return resource, nil
}

// builtInType returns the Go type of a resource of Kubernetes.
func builtInType(version schema.GroupVersion, plural string) (kind string, goType reflect.Type, is bool) {
	for kind, goType := range scheme.Scheme.KnownTypes(version) {
		if guess, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); guess.Resource == plural {
			return kind, goType, true
		}
	}
	return "", nil, false
}

// addCRDs says how to assume nothing.
const addCRDs = "Add their CRDs to the files to be sure."

// explain adds what was assumed to an error that may be due to it.
func (o *offline) explain(err error) error {
	if err == nil || o == nil || len(o.assumed) == 0 {
		return err
	}
	return errorWithHint{err, "without a cluster, " + strings.Join(o.assumed, ", ") + " are assumed to be namespaced. " + addCRDs}
}

// comments say what was assumed.
func (o *offline) comments(impersonates bool) []string {
	all := []string{"The cluster was not read: " + clean(failure.Text(o.why)) + "."}
	if len(o.assumed) > 0 {
		all = append(all, "Assumed to be namespaced: "+strings.Join(o.assumed, ", ")+". "+addCRDs)
	}
	if impersonates {
		all = append(all, "Assumed to be older than Kubernetes 1.36: use --impersonation=constrained for a newer one.")
	}
	return all
}
