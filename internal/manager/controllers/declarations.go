package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// declarations are the stored controller objects that are watched.
type declarations struct {
	client rest.Interface
	// kinds are set before anything else runs; none in a Go program.
	kinds map[string]*controllerKind
}

type controllerKind struct {
	compile.Kind
	view *cache.View
}

// get returns a controller object; nil if there is none.
func (d *declarations) get(key queue.Key) *object.Object {
	kind := d.kinds[key.Namespace]
	if kind == nil {
		return nil
	}
	return kind.view.Get("", key.Name)
}

// all returns all controller objects.
func (d *declarations) all() iter.Seq2[queue.Key, *object.Object] {
	return func(yield func(queue.Key, *object.Object) bool) {
		for _, kind := range d.kinds {
			for o := range kind.view.All() {
				if !yield(queue.Key{Namespace: kind.Name, Name: o.Name()}, o) {
					return
				}
			}
		}
	}
}

// listed reports whether all controller objects are known. It skips kinds that are not
// installed or that Setpoint may not watch.
func (d *declarations) listed() bool {
	for _, kind := range d.kinds {
		if !kind.view.Synced() && !request.IsForbiddenOrNotFound(kind.view.Err()) {
			return false
		}
	}
	return true
}

// forMetacontroller reports whether Metacontroller serves a kind too.
func (d *declarations) forMetacontroller(key queue.Key) bool {
	kind := d.kinds[key.Namespace]
	return kind != nil && kind.Metacontroller()
}

// identityOf returns the metadata by which the API server refuses a patch of an object that has changed.
func identityOf(o *object.Object) map[string]any {
	return map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID()}
}

// patchStatus sets fields in the status of a controller object, if the object is unchanged. A null removes a field.
func (d *declarations) patchStatus(ctx context.Context, key queue.Key, o *object.Object, fields map[string]any) error {
	return d.patch(ctx, key, "/status", map[string]any{"metadata": identityOf(o), "status": fields})
}

// patchFinalizers sets the finalizers of a controller object, if the object is unchanged.
func (d *declarations) patchFinalizers(ctx context.Context, key queue.Key, o *object.Object, names []string) error {
	metadata := identityOf(o)
	metadata["finalizers"] = names
	if err := d.patch(ctx, key, "", map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("set the finalizers of %s: %w", key, err)
	}
	return nil
}

// patchFinalizedKinds stores in the status of a controller object which kinds have its finalizer, if the object is
// unchanged.
func (d *declarations) patchFinalizedKinds(ctx context.Context, key queue.Key, o *object.Object, finalizes []string) error {
	if len(finalizes) == 0 {
		finalizes = nil // A null removes the field.
	}
	if err := d.patchStatus(ctx, key, o, map[string]any{"finalizes": finalizes}); err != nil {
		return fmt.Errorf("store the finalized kinds in the status of %s: %w", key, err)
	}
	return nil
}

// patch patches a controller object or a subresource such as "/status". The result is in
// the cache when it returns.
func (d *declarations) patch(ctx context.Context, key queue.Key, part string, change map[string]any) error {
	kind := d.kinds[key.Namespace]
	data, err := d.sendPatch(ctx, kind.Resource.Path("", key.Name)+part, change)
	if err != nil {
		return err
	}
	stored, err := object.ParseWithManagedFields(data, "", "")
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	kind.view.ObserveWrite(stored)
	return nil
}

func (d *declarations) sendPatch(ctx context.Context, path string, change map[string]any) ([]byte, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return request.Do(ctx, d.client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", "setpoint").
		Param("fieldValidation", "Ignore").Body(body))
}
