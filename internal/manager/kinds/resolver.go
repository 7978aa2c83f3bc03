// Package kinds finds what the API server serves of a kind, and remembers what it has served.
package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Resolver finds the resources of the API server.
type Resolver struct {
	Client rest.Interface
	// Known are the kinds that were found.
	Known Known
	// Defined are resources of CRDs that may not be stored yet.
	Defined []object.Resource
	// Assume resolves the others without the API server; nil to use that.
	Assume func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
}

// Resolve returns the resource of an apiVersion and plural.
func (r *Resolver) Resolve(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
	for _, one := range r.Defined {
		if one.APIVersion() == apiVersion && one.Plural == plural {
			return one, nil
		}
	}
	if r.Assume != nil {
		return r.Assume(ctx, apiVersion, plural)
	}
	return r.find(ctx, apiVersion, plural, func(r metav1.APIResource) bool { return r.Name == plural })
}

// ResolveKind returns the resource of an apiVersion and kind. Subresources do not count: they may have the same kind.
func (r *Resolver) ResolveKind(ctx context.Context, apiVersion, kind string) (object.Resource, error) {
	return r.find(ctx, apiVersion, kind, func(r metav1.APIResource) bool { return r.Kind == kind && !strings.Contains(r.Name, "/") })
}

// lookupTimeout bounds a lookup: controllers start one after another, and a proxy that does not answer for one
// API group must not hold up those that need another.
const lookupTimeout = 10 * time.Second

// find returns the resource that meant selects.
func (r *Resolver) find(ctx context.Context, apiVersion, name string, meant func(metav1.APIResource) bool) (object.Resource, error) {
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
	r.Known.Add(resource)
	return resource, nil
}

// servedResources returns the resources of an apiVersion.
func (r *Resolver) servedResources(ctx context.Context, apiVersion string) ([]metav1.APIResource, error) {
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	var list metav1.APIResourceList
	err := r.Client.Get().AbsPath(path).Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%s: %w", apiVersion, compile.ErrNotServed)
	}
	return list.APIResources, err
}

// isCustom reports whether a CRD defines the resource. Where Setpoint may not read CRDs it
// guesses by the group: those of built-in kinds have no dot or end in .k8s.io.
func (r *Resolver) isCustom(ctx context.Context, resource object.Resource) (bool, error) {
	if !strings.Contains(resource.Group, ".") {
		return false, nil
	}
	err := r.Client.Get().AbsPath(crds.Resource.Path("", resource.Plural+"."+resource.Group)).
		SetHeader("Accept", request.Metadata).Do(ctx).Error()
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

// ServedVersion returns the apiVersion in which a resource is served; "" for none.
func (r *Resolver) ServedVersion(ctx context.Context, name compile.ResourceName) (string, error) {
	if name.Group() == "" {
		return "", nil
	}
	var group metav1.APIGroup
	if err := r.Client.Get().AbsPath("/apis/" + name.Group()).Do(ctx).Into(&group); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", err
	}
	for _, version := range group.Versions {
		served, err := r.servedResources(ctx, version.GroupVersion)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == name.Plural }) {
			return version.GroupVersion, nil
		}
	}
	return "", nil
}

// Known are the kinds that the API server has served to this process or, by the status of a controller, to
// an earlier one. A kind that is gone is known by them.
type Known struct {
	mu  sync.Mutex
	all map[string]object.Resource
}

// Add adds a kind that is served, or was.
func (k *Known) Add(served object.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]object.Resource{}
	}
	for _, name := range []string{served.Plural, served.Kind} {
		k.all[served.APIVersion()+" "+name] = served
	}
}

// Find returns a kind by its plural or its kind.
func (k *Known) Find(apiVersion, name string) (object.Resource, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, known := k.all[apiVersion+" "+name]
	return found, known
}

// AddUsed adds the kinds in the status of a controller.
func (k *Known) AddUsed(kinds []setpoint.UsedKind) {
	for _, used := range kinds {
		if _, known := k.Find(used.APIVersion, used.Resource); known {
			continue
		}
		group := schema.FromAPIVersionAndKind(used.APIVersion, used.Kind)
		k.Add(object.Resource{
			Group: group.Group, Version: group.Version, Plural: used.Resource, Kind: used.Kind, Namespaced: used.Namespaced, Custom: true,
		})
	}
}
