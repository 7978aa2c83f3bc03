package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// resolver finds the resources of the API server.
type resolver struct {
	client rest.Interface
	// known are the kinds that were found.
	known knownKinds
	// defined are resources of CRDs that may not be stored yet.
	defined []object.Resource
	// assume resolves the others without the API server; nil to use that.
	assume func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
}

// resolve returns the resource of an apiVersion and plural.
func (r *resolver) resolve(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
	for _, one := range r.defined {
		if one.APIVersion() == apiVersion && one.Plural == plural {
			return one, nil
		}
	}
	if r.assume != nil {
		return r.assume(ctx, apiVersion, plural)
	}
	return r.find(ctx, apiVersion, plural, func(r metav1.APIResource) bool { return r.Name == plural })
}

// resolveKind returns the resource of an apiVersion and kind. Subresources do not count: they
// may have the same kind.
func (r *resolver) resolveKind(ctx context.Context, apiVersion, kind string) (object.Resource, error) {
	return r.find(ctx, apiVersion, kind, func(r metav1.APIResource) bool { return r.Kind == kind && !strings.Contains(r.Name, "/") })
}

// lookupTimeout bounds a lookup: controllers start one after another, and a proxy that does not answer for one
// API group must not hold up those that need another.
const lookupTimeout = 10 * time.Second

// find returns the resource that meant selects.
func (r *resolver) find(ctx context.Context, apiVersion, name string, meant func(metav1.APIResource) bool) (object.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	served, err := r.servedResources(ctx, apiVersion)
	if err != nil {
		return object.Resource{}, cache.StableError(err)
	}
	i := slices.IndexFunc(served, meant)
	if i < 0 {
		return object.Resource{}, fmt.Errorf("%s of %s: %w", name, apiVersion, compile.ErrNotServed)
	}
	plural := served[i].Name
	kind := schema.FromAPIVersionAndKind(apiVersion, served[i].Kind)
	resource := object.Resource{
		Group: kind.Group, Version: kind.Version, Plural: plural,
		Kind: kind.Kind, Namespaced: served[i].Namespaced,
		Status: slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == plural+"/status" }),
	}
	if resource.Custom, err = r.isCustom(ctx, resource); err != nil {
		return resource, fmt.Errorf("read CustomResourceDefinition %s: %w", crds.NameOf(resource), cache.StableError(err))
	}
	r.known.add(resource)
	return resource, nil
}

// servedResources returns the resources of an apiVersion.
func (r *resolver) servedResources(ctx context.Context, apiVersion string) ([]metav1.APIResource, error) {
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	var list metav1.APIResourceList
	err := r.client.Get().AbsPath(path).Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%s: %w", apiVersion, compile.ErrNotServed)
	}
	return list.APIResources, err
}

// isCustom reports whether a CRD defines the resource. Where Setpoint may not read CRDs it
// guesses by the group: those of built-in kinds have no dot or end in .k8s.io.
func (r *resolver) isCustom(ctx context.Context, resource object.Resource) (bool, error) {
	if !strings.Contains(resource.Group, ".") {
		return false, nil
	}
	err := r.client.Get().AbsPath(crds.Resource.Path("", resource.Plural+"."+resource.Group)).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Do(ctx).Error()
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return !strings.HasSuffix(resource.Group, ".k8s.io"), nil
	}
	return false, err
}
