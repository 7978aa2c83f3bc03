package manager

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
	"k8s.io/client-go/util/retry"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	// listPageSize is the size of a list page; releaseConcurrency, the number of writes
	// in flight.
	listPageSize       = "500"
	releaseConcurrency = 16
	// maxReleaseAttempts limits the attempts on an object that others write too.
	maxReleaseAttempts = 8

	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// finalizerRemoval removes a finalizer from objects, with Setpoint's own rights: the ServiceAccount of the controller
// that set it may be gone. It does so as the ServiceAccount where Setpoint itself may not.
type finalizerRemoval struct {
	*Manager
	finalizer string
	account   identity.Account
	// namespaces are those in the spec. They are used only without a right to all: the spec may have had
	// others before.
	namespaces []string

	// outside means that objects in these namespaces keep the finalizer.
	outside []string

	// dryRun only counts. removed is the number of objects that had the finalizer; deleting,
	// of those among them that are being deleted.
	dryRun            bool
	removed, deleting atomic.Int64
}

// removeFrom removes the finalizer from all objects of a kind, in whichever version it is served.
func (m *finalizerRemoval) removeFrom(ctx context.Context, name compile.ResourceName) error {
	err := m.removeFromResource(ctx, resourceOf(name))
	if !apierrors.IsNotFound(err) {
		return err
	}
	version, err := m.servedVersion(ctx, name)
	if err != nil || version == "" {
		return err
	}
	return m.removeFromResource(ctx, resourceOf(compile.ResourceName{APIVersion: version, Plural: name.Plural}))
}

// resourceOf returns the resource of a name, as far as its path needs it.
func resourceOf(name compile.ResourceName) object.Resource {
	of := schema.FromAPIVersionAndKind(name.APIVersion, "")
	return object.Resource{Group: of.Group, Version: of.Version, Plural: name.Plural, Namespaced: true}
}

// servedVersion returns the apiVersion in which a resource is served; "" for none.
func (m *Manager) servedVersion(ctx context.Context, name compile.ResourceName) (string, error) {
	if name.Group() == "" {
		return "", nil
	}
	var group metav1.APIGroup
	if err := m.client.Get().AbsPath("/apis/" + name.Group()).Do(ctx).Into(&group); err != nil {
		return "", ignoreNotFound(err)
	}
	for _, version := range group.Versions {
		served, err := m.resolver.servedResources(ctx, version.GroupVersion)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == name.Plural }) {
			return version.GroupVersion, nil
		}
	}
	return "", nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeFromResource removes the finalizer from the objects of a resource, in the namespaces that
// Setpoint is limited to. Objects in others keep it.
func (m *finalizerRemoval) removeFromResource(ctx context.Context, resource object.Resource) error {
	namespaces, err := m.namespacesOf(ctx, resource)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		err := m.removeIn(ctx, resource, namespace)
		if apierrors.IsForbidden(err) && namespace == "" && len(m.namespaces) > 0 {
			err = m.removeInEach(ctx, resource)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *finalizerRemoval) removeInEach(ctx context.Context, resource object.Resource) error {
	for _, namespace := range m.namespaces {
		if err := m.removeIn(ctx, resource, namespace); err != nil {
			return err
		}
	}
	return nil
}

// namespacesOf returns the namespaces with objects of a resource, "" for all. The error is NotFound
// if the resource is not served.
func (m *finalizerRemoval) namespacesOf(ctx context.Context, resource object.Resource) ([]string, error) {
	if len(m.options.Namespaces) == 0 {
		return []string{""}, nil
	}
	found, err := m.resolver.resolve(ctx, resource.APIVersion(), resource.Plural)
	switch {
	case errors.Is(err, compile.ErrNotServed):
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, "")
	case err == nil && found.Namespaced:
		return m.options.Namespaces, nil
	}
	return []string{""}, err
}

// removeIn removes the finalizer page by page. A failed write does not stop the writes of the same
// page. Setpoint itself lists: it watches these objects too.
func (m *finalizerRemoval) removeIn(ctx context.Context, resource object.Resource, namespace string) error {
	for next := ""; ; {
		var page metav1.PartialObjectMetadataList
		err := m.client.Get().AbsPath(resource.Path(namespace, "")).Param("limit", listPageSize).Param("continue", next).
			SetHeader("Accept", metadataList).Do(ctx).Into(&page)
		if err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(releaseConcurrency)
		for i := range page.Items {
			if o := &page.Items[i]; slices.Contains(o.Finalizers, m.finalizer) && !slices.Contains(m.outside, o.Namespace) {
				group.Go(func() error { return m.removeAndCount(ctx, resource, o) })
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

func (m *finalizerRemoval) removeAndCount(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) error {
	if !m.dryRun {
		if err := m.removeFromObject(ctx, resource, o); err != nil {
			return err
		}
	}
	m.removed.Add(1)
	if o.DeletionTimestamp != nil {
		m.deleting.Add(1)
	}
	return nil
}

// removeFromObject removes the finalizer from one object, and retries on conflicts.
func (m *finalizerRemoval) removeFromObject(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) error {
	uid, path := o.UID, resource.Path(o.Namespace, o.Name)
	// A failed test operation in the patch is reported as Invalid.
	moved := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
	err := retry.OnError(wait.Backoff{Steps: maxReleaseAttempts, Duration: 10 * time.Millisecond}, moved, func() error {
		i := slices.Index(o.Finalizers, m.finalizer)
		if i < 0 || o.UID != uid {
			return nil
		}
		err := m.patchFinalizer(ctx, path, o, i)
		if !moved(err) {
			return err
		}
		o = &metav1.PartialObjectMetadata{}
		return cmp.Or(m.client.Get().AbsPath(path).SetHeader("Accept", metadataOnly).Do(ctx).Into(o), err)
	})
	if err = ignoreNotFound(err); err != nil {
		return fmt.Errorf("%s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// patchFinalizer removes the finalizer at an index, if it is unchanged.
func (m *finalizerRemoval) patchFinalizer(ctx context.Context, path string, o *metav1.PartialObjectMetadata, index int) error {
	field := fmt.Sprintf("/metadata/finalizers/%d", index)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": o.UID},
		{"op": "test", "path": field, "value": o.Finalizers[index]},
		{"op": "remove", "path": field},
	})
	if err != nil {
		return err
	}
	err = m.sendPatch(ctx, path, patch, "")
	user := m.account.UserFor(o.Namespace)
	if user == "" || !apierrors.IsForbidden(err) {
		return err
	}
	if gone := m.access.CheckExists(ctx, user); gone != nil {
		return fmt.Errorf("%w, and %w", err, gone)
	}
	return m.sendPatch(ctx, path, patch, user)
}

// sendPatch sends a patch of an object as a user, "" for Setpoint itself.
func (m *finalizerRemoval) sendPatch(ctx context.Context, path string, patch []byte, user string) error {
	request := m.client.Patch(types.JSONPatchType)
	if user != "" {
		request = request.SetHeader(authentication.ImpersonateUserHeader, user)
	}
	return request.AbsPath(path).
		Param("fieldManager", programName).SetHeader("Accept", metadataOnly).Body(patch).Do(ctx).Error()
}
