// Package finalizers removes a finalizer from all objects of a kind, for controllers that do not run any more.
package finalizers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

const (
	listPageSize = "500"
	// Concurrency is the number of writes in flight.
	Concurrency = 16
	// maxReleaseAttempts limits the attempts on an object that others write too.
	maxReleaseAttempts = 8
)

// Removal removes a finalizer from objects, with Setpoint's own rights: the ServiceAccount of the controller
// that set it may be gone. It does so as the ServiceAccount where Setpoint itself may not.
type Removal struct {
	*Cluster

	Finalizer string
	Account   identity.Account
	// Namespaces are those in the spec. They are used only without a right to all: the spec may have had others before.
	Namespaces []string

	// Outside means that objects in these namespaces keep the finalizer.
	Outside []string

	// DryRun only counts. Removed is the number of objects that had the finalizer; Deleting,
	// of those among them that are being deleted.
	DryRun            bool
	Removed, Deleting atomic.Int64
}

// Cluster is where finalizers are removed.
type Cluster struct {
	Client   rest.Interface
	Resolver *kinds.Resolver
	Access   *identity.Reviewer
	// FieldManager is that of the patches.
	FieldManager string
	// Limits are the namespaces that Setpoint is limited to; empty means all.
	Limits []string
}

// ReleasesParents reports whether a controller object has Setpoint's finalizer, which stays until its finalizers on
// parents are removed.
func ReleasesParents(o *object.Object) bool {
	return slices.Contains(o.Finalizers(), setpoint.FinalizerReleaseParents)
}

// CountObjects returns such as "2 objects".
func CountObjects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// RemoveFrom removes the finalizer from all objects of a kind, in whichever version it is served.
func (r *Removal) RemoveFrom(ctx context.Context, name compile.ResourceName) error {
	err := r.removeFromResource(ctx, resourceOf(name))
	if !apierrors.IsNotFound(err) {
		return err
	}
	version, err := r.Resolver.ServedVersion(ctx, name)
	if err != nil || version == "" {
		return err
	}
	return r.removeFromResource(ctx, resourceOf(compile.ResourceName{APIVersion: version, Plural: name.Plural}))
}

// resourceOf returns the resource of a name, as far as its path needs it.
func resourceOf(name compile.ResourceName) object.Resource {
	of := schema.FromAPIVersionAndKind(name.APIVersion, "")
	return object.Resource{Group: of.Group, Version: of.Version, Plural: name.Plural, Namespaced: true}
}

// removeFromResource removes the finalizer from the objects of a resource, in the namespaces that
// Setpoint is limited to. Objects in others keep it.
func (r *Removal) removeFromResource(ctx context.Context, resource object.Resource) error {
	namespaces, err := r.namespacesOf(ctx, resource)
	if err == nil {
		err = r.removeInEach(ctx, resource, namespaces)
	}
	if apierrors.IsForbidden(err) && slices.Contains(namespaces, "") && len(r.Namespaces) > 0 {
		err = r.removeInEach(ctx, resource, r.Namespaces)
	}
	return err
}

func (r *Removal) removeInEach(ctx context.Context, resource object.Resource, namespaces []string) error {
	for _, namespace := range namespaces {
		if err := r.removeIn(ctx, resource, namespace); err != nil {
			return err
		}
	}
	return nil
}

// namespacesOf returns the namespaces with objects of a resource, "" for all. The error is NotFound
// if the resource is not served.
func (r *Removal) namespacesOf(ctx context.Context, resource object.Resource) ([]string, error) {
	if len(r.Limits) == 0 {
		return []string{""}, nil
	}
	found, err := r.Resolver.Resolve(ctx, resource.APIVersion(), resource.Plural)
	switch {
	case errors.Is(err, compile.ErrNotServed):
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, "")
	case err == nil && found.Namespaced:
		return r.Limits, nil
	}
	return []string{""}, err
}

// removeIn removes the finalizer page by page. A failed write does not stop the writes of the same
// page. Setpoint itself lists: it watches these objects too.
func (r *Removal) removeIn(ctx context.Context, resource object.Resource, namespace string) error {
	for next := ""; ; {
		var page metav1.PartialObjectMetadataList
		err := r.Client.Get().AbsPath(resource.Path(namespace, "")).Param("limit", listPageSize).Param("continue", next).
			SetHeader("Accept", request.MetadataList).Do(ctx).Into(&page)
		if err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(Concurrency)
		for i := range page.Items {
			if o := &page.Items[i]; slices.Contains(o.Finalizers, r.Finalizer) && !slices.Contains(r.Outside, o.Namespace) {
				group.Go(func() error { return r.removeAndCount(ctx, resource, o) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

func (r *Removal) removeAndCount(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) error {
	if !r.DryRun {
		if err := r.RemoveFromObject(ctx, resource, o); err != nil {
			return err
		}
	}
	r.Removed.Add(1)
	if o.DeletionTimestamp != nil {
		r.Deleting.Add(1)
	}
	return nil
}

// RemoveFromObject removes the finalizer from one object, and retries on conflicts.
func (r *Removal) RemoveFromObject(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) error {
	uid, path := o.UID, resource.Path(o.Namespace, o.Name)
	// A failed test operation in the patch is reported as Invalid.
	moved := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
	err := retry.OnError(wait.Backoff{Steps: maxReleaseAttempts, Duration: 10 * time.Millisecond}, moved, func() error {
		i := slices.Index(o.Finalizers, r.Finalizer)
		if i < 0 || o.UID != uid {
			return nil
		}
		err := r.patchFinalizer(ctx, path, o, i)
		if !moved(err) {
			return err
		}
		o = &metav1.PartialObjectMetadata{}
		return cmp.Or(r.Client.Get().AbsPath(path).SetHeader("Accept", request.Metadata).Do(ctx).Into(o), err)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// patchFinalizer removes the finalizer at an index, if it is unchanged.
func (r *Removal) patchFinalizer(ctx context.Context, path string, o *metav1.PartialObjectMetadata, index int) error {
	field := fmt.Sprintf("/metadata/finalizers/%d", index)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": o.UID},
		{"op": "test", "path": field, "value": o.Finalizers[index]},
		{"op": "remove", "path": field},
	})
	if err != nil {
		return err
	}
	err = r.sendPatch(ctx, path, patch, "")
	user := r.Account.UserFor(o.Namespace)
	if user == "" || !apierrors.IsForbidden(err) {
		return err
	}
	if gone := r.Access.CheckExists(ctx, user); gone != nil {
		return fmt.Errorf("%w, and %w", err, gone)
	}
	return r.sendPatch(ctx, path, patch, user)
}

// sendPatch sends a patch of an object as a user, "" for Setpoint itself.
func (r *Removal) sendPatch(ctx context.Context, path string, patch []byte, user string) error {
	sent := r.Client.Patch(types.JSONPatchType)
	if user != "" {
		sent = sent.SetHeader(authentication.ImpersonateUserHeader, user)
	}
	return sent.AbsPath(path).
		Param("fieldManager", r.FieldManager).SetHeader("Accept", request.Metadata).Body(patch).Do(ctx).Error()
}
