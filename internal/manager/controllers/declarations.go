package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
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
	if kind := d.kinds[key.Namespace]; kind != nil {
		return kind.view.Get("", key.Name)
	}
	return nil
}

// resource returns the kind of a controller object; zero for a controller of a Go program.
func (d *declarations) resource(key queue.Key) object.Resource {
	if kind := d.kinds[key.Namespace]; kind != nil {
		return kind.Resource
	}
	return object.Resource{}
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

// patch patches a controller object or a subresource such as "/status". The result is in the cache when it returns.
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

// unchanged reports whether a user has changed nothing. Controllers of a Go program have no object.
func unchanged(declared, before *object.Object) bool {
	return declared == before || declared.UID() == before.UID() && declared.IntentDigest() == before.IntentDigest()
}

// onlyCommands reports whether only annotations changed that request an action. All other changes are visible to hooks.
func onlyCommands(declared, before *object.Object) bool {
	return sameMetadata(declared, before) && declared.Generation() == before.Generation()
}

// reconcileRequested reports whether a user requested to reconcile all objects, by annotation, and changed nothing else.
func reconcileRequested(declared, before *object.Object) bool {
	return onlyCommands(declared, before) && plan.ReconcileRequested(before, declared)
}

// onlyRollout reports whether a user changed nothing but spec.rollout, whatever actions were requested.
func onlyRollout(declared, before *object.Object) bool {
	// kubectl apply stores the whole spec in its annotation.
	return sameMetadata(declared, before, corev1.LastAppliedConfigAnnotation) && specWithoutRollout(declared) == specWithoutRollout(before)
}

func specWithoutRollout(o *object.Object) uint64 {
	bare, err := o.With(nil, "spec", "rollout")
	if err != nil {
		return o.Digest() // The object was parsed before, so editing it cannot fail.
	}
	return object.DigestOf(bare.Field("spec"))
}

// sameMetadata reports whether an object is the same one as before, with the same labels, and annotations but those that
// request an action and the ignored ones.
func sameMetadata(declared, before *object.Object, ignored ...string) bool {
	if declared == nil || before == nil || declared.UID() != before.UID() {
		return false
	}
	ignored = append(ignored, setpoint.AnnotationReconcileAt, setpoint.AnnotationAllowDeletions, setpoint.AnnotationRolloutRetryAt)
	return maps.Equal(metadataOf(declared, "labels"), metadataOf(before, "labels")) &&
		maps.Equal(metadataOf(declared, "annotations", ignored...), metadataOf(before, "annotations", ignored...))
}

// metadataOf returns the labels or annotations of an object but some.
func metadataOf(o *object.Object, field string, ignored ...string) (all map[string]string) {
	if text := o.Field("metadata", field); text == nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return slices.Contains(ignored, name) })
	return all
}

// reportedStatus is the status that was written last, and what the API server stored of it:
// the schema of another CRD may prune fields.
type reportedStatus struct {
	written        bool
	status, stored setpoint.ControllerStatus
}

// previous returns the status that was written, if it is unchanged in the object, else the stored one.
func (r *reportedStatus) previous(o *object.Object) setpoint.ControllerStatus {
	stored := comparableStatus(o)
	if r.written && equality.Semantic.DeepEqual(stored, r.stored) {
		return r.status
	}
	return stored
}

// pruned reports whether the schema prunes the whole status, so that more writes are useless.
func (r *reportedStatus) pruned(o *object.Object) bool {
	none := setpoint.ControllerStatus{}
	return r.written && equality.Semantic.DeepEqual(r.stored, none) && equality.Semantic.DeepEqual(comparableStatus(o), none)
}

// comparableStatus returns the stored status without the fields that setFinalizer and take write.
func comparableStatus(o *object.Object) setpoint.ControllerStatus {
	if o == nil {
		return setpoint.ControllerStatus{}
	}
	stored := compile.StoredStatus(o)
	stored.Finalizes, stored.ManagedBy = nil, nil
	return stored
}

// statusPatch returns a merge patch from one status to another. The API server refuses it
// if the object is not the one that the status was computed from: a replica that does not know yet that another one
// leads must not take back where that has moved a rollout.
func statusPatch(of *object.Object, previous, now setpoint.ControllerStatus) (map[string]any, error) {
	before, err := fieldsOf(previous)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(now)
	if err != nil {
		return nil, err
	}
	// All fields are written: counts of 0 are the same for us as none, but not for who reads the object.
	return map[string]any{"metadata": identityOf(of), "status": object.CombinePatches(object.PatchBetween(before, after), after)}, nil
}

func fieldsOf(status setpoint.ControllerStatus) (fields map[string]any, err error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &fields)
	return fields, err
}
