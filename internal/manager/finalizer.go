package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
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

// removeFinalizer removes a finalizer from all objects of a kind, in whichever version it
// is served.
func (m *Manager) removeFinalizer(ctx context.Context, name compile.ResourceName, finalizer string) error {
	err := m.removeFinalizerFrom(ctx, resourceOf(name), finalizer)
	if !apierrors.IsNotFound(err) {
		return err
	}
	version, err := m.servedVersion(ctx, name)
	if err != nil || version == "" {
		return err
	}
	return m.removeFinalizerFrom(ctx, resourceOf(compile.ResourceName{APIVersion: version, Plural: name.Plural}), finalizer)
}

// resourceOf returns the resource of a name, as far as its path needs it.
func resourceOf(name compile.ResourceName) object.Resource {
	version := name.APIVersion[strings.LastIndexByte(name.APIVersion, '/')+1:]
	return object.Resource{Group: name.Group(), Version: version, Plural: name.Plural, Namespaced: true}
}

// servedVersion returns the apiVersion in which a resource is served; "" for none.
func (m *Manager) servedVersion(ctx context.Context, name compile.ResourceName) (string, error) {
	if name.Group() == "" {
		return "", nil
	}
	data, err := request.Do(ctx, m.client.Get().AbsPath("/apis/"+name.Group()))
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var group metav1.APIGroup
	if err := json.Unmarshal(data, &group); err != nil {
		return "", fmt.Errorf("read API group %s: %w", name.Group(), err)
	}
	for _, version := range group.Versions {
		served, err := m.servedResources(ctx, version.GroupVersion)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == name.Plural }) {
			return version.GroupVersion, nil
		}
	}
	return "", nil
}

// removeFinalizerFrom removes the finalizer page by page. A failed write does not stop
// the writes of the same page.
func (m *Manager) removeFinalizerFrom(ctx context.Context, resource object.Resource, finalizer string) error {
	next := ""
	for {
		data, err := request.DoAs(ctx, metadataList, m.client.Get().AbsPath(resource.Path("", "")).Param("limit", listPageSize).Param("continue", next))
		if err != nil {
			return err
		}
		var page metav1.PartialObjectMetadataList
		if err := json.Unmarshal(data, &page); err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(releaseConcurrency)
		for i := range page.Items {
			group.Go(func() error { return m.removeFinalizerOf(ctx, resource, &page.Items[i], finalizer) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// removeFinalizerOf removes a finalizer from one object, and retries on conflicts.
func (m *Manager) removeFinalizerOf(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata, finalizer string) error {
	uid := o.UID
	for try := 1; ; try++ {
		i := slices.Index(o.Finalizers, finalizer)
		if i < 0 || o.UID != uid {
			return nil
		}
		err := m.patchFinalizer(ctx, resource, o, i)
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		// A failed test operation in the patch is reported as Invalid.
		moved := apierrors.IsConflict(err) || apierrors.IsInvalid(err)
		if !moved || try == maxReleaseAttempts {
			return fmt.Errorf("%s/%s: %w", o.Namespace, o.Name, err)
		}
		if o, err = m.getMetadata(ctx, resource, o); err != nil || o == nil {
			return err
		}
	}
}

// patchFinalizer removes the finalizer at an index, if it is unchanged.
func (m *Manager) patchFinalizer(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata, index int) error {
	path := fmt.Sprintf("/metadata/finalizers/%d", index)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": o.UID},
		{"op": "test", "path": path, "value": o.Finalizers[index]},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	return m.client.Patch(types.JSONPatchType).AbsPath(resource.Path(o.Namespace, o.Name)).
		Param("fieldManager", "setpoint").SetHeader("Accept", metadataOnly).Body(patch).Do(ctx).Error()
}

// getMetadata reads an object again; nil if it is deleted.
func (m *Manager) getMetadata(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	data, err := request.DoAs(ctx, metadataOnly, m.client.Get().AbsPath(resource.Path(o.Namespace, o.Name)))
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // The object is deleted.
	}
	if err != nil {
		return nil, err
	}
	var fresh metav1.PartialObjectMetadata
	return &fresh, json.Unmarshal(data, &fresh)
}
