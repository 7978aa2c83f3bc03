// Package declared has the objects that declare controllers: those that are watched, what a user has changed in one, and
// the patches of their status and finalizers.
package declared

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

// Objects are the stored controller objects that are watched. The namespace of their keys is the name of their kind.
type Objects struct {
	client rest.Interface
	// kinds are set before anything else runs; none in a Go program.
	kinds map[string]*watchedKind
}

type watchedKind struct {
	compile.Kind
	view *cache.View
}

// New returns the objects of no kind.
func New(client rest.Interface) *Objects { return &Objects{client, map[string]*watchedKind{}} }

// Add adds the objects of a kind.
func (d *Objects) Add(kind compile.Kind, view *cache.View) {
	d.kinds[kind.Name] = &watchedKind{kind, view}
}

// Kind returns the kind of a controller object.
func (d *Objects) Kind(key queue.Key) compile.Kind { return d.kinds[key.Namespace].Kind }

// Get returns a controller object; nil if there is none.
func (d *Objects) Get(key queue.Key) *object.Object {
	if kind := d.kinds[key.Namespace]; kind != nil {
		return kind.view.Get("", key.Name)
	}
	return nil
}

// Resource returns the kind of a controller object; zero for a controller of a Go program.
func (d *Objects) Resource(key queue.Key) object.Resource {
	if kind := d.kinds[key.Namespace]; kind != nil {
		return kind.Resource
	}
	return object.Resource{}
}

// All returns all controller objects.
func (d *Objects) All() iter.Seq2[queue.Key, *object.Object] {
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

// Synced reports whether all controller objects of a kind are known.
func (d *Objects) Synced(kind string) bool {
	for _, one := range d.kinds {
		if one.Resource.Kind == kind && !one.view.Synced() {
			return false
		}
	}
	return true
}

// Listed reports whether all controller objects are known. It skips kinds that are not
// installed or that Setpoint may not watch.
func (d *Objects) Listed() bool {
	for _, kind := range d.kinds {
		if !kind.view.Synced() && !request.IsForbiddenOrNotFound(kind.view.Err()) {
			return false
		}
	}
	return true
}

// ForMetacontroller reports whether Metacontroller serves a kind too.
func (d *Objects) ForMetacontroller(key queue.Key) bool {
	kind := d.kinds[key.Namespace]
	return kind != nil && kind.Metacontroller()
}

// IdentityOf returns the metadata by which the API server refuses a patch of an object that has changed.
func IdentityOf(o *object.Object) map[string]any {
	return map[string]any{"resourceVersion": o.ResourceVersion(), "uid": o.UID()}
}

// PatchStatus sets fields in the status of a controller object, if the object is unchanged. A null removes a field.
func (d *Objects) PatchStatus(ctx context.Context, key queue.Key, o *object.Object, fields map[string]any) error {
	return d.Patch(ctx, key, "/status", map[string]any{"metadata": IdentityOf(o), "status": fields})
}

// PatchFinalizers sets the finalizers of a controller object, if the object is unchanged.
func (d *Objects) PatchFinalizers(ctx context.Context, key queue.Key, o *object.Object, names []string) error {
	metadata := IdentityOf(o)
	metadata["finalizers"] = names
	if err := d.Patch(ctx, key, "", map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("set the finalizers of %s: %w", key, err)
	}
	return nil
}

// PatchFinalizedKinds stores in the status of a controller object which kinds have its finalizer, if the object is
// unchanged.
func (d *Objects) PatchFinalizedKinds(ctx context.Context, key queue.Key, o *object.Object, finalizes []string) error {
	if len(finalizes) == 0 {
		finalizes = nil // A null removes the field.
	}
	if err := d.PatchStatus(ctx, key, o, map[string]any{"finalizes": finalizes}); err != nil {
		return fmt.Errorf("store the finalized kinds in the status of %s: %w", key, err)
	}
	return nil
}

// Patch patches a controller object or a subresource such as "/status". The result is in the cache when it returns.
func (d *Objects) Patch(ctx context.Context, key queue.Key, part string, change map[string]any) error {
	kind := d.kinds[key.Namespace]
	data, err := d.SendPatch(ctx, kind.Resource.Path("", key.Name)+part, change)
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

// SendPatch sends a JSON merge patch and returns the object in the response.
func (d *Objects) SendPatch(ctx context.Context, path string, change map[string]any) ([]byte, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return request.Do(ctx, d.client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", "setpoint").
		Param("fieldValidation", "Ignore").Body(body))
}

// Unchanged reports whether a user has changed nothing. Controllers of a Go program have no object.
func Unchanged(declared, before *object.Object) bool {
	return declared == before || declared.UID() == before.UID() && declared.IntentDigest() == before.IntentDigest()
}

// OnlyCommands reports whether only annotations changed that request an action. All other changes are visible to hooks.
func OnlyCommands(declared, before *object.Object) bool {
	return sameMetadata(declared, before) && declared.Generation() == before.Generation()
}

// ReconcileRequested reports whether a user requested to reconcile all objects, by annotation, and changed nothing else.
func ReconcileRequested(declared, before *object.Object) bool {
	return OnlyCommands(declared, before) && plan.ReconcileRequested(before, declared)
}

// OnlyRollout reports whether a user changed nothing but spec.rollout, whatever actions were requested.
func OnlyRollout(declared, before *object.Object) bool {
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

// Reported is the status that was written last, and what the API server stored of it:
// the schema of another CRD may prune fields.
type Reported struct {
	Written        bool
	Status, Stored setpoint.ControllerStatus
}

// Previous returns the status that was written, if it is unchanged in the object, else the stored one.
func (r *Reported) Previous(o *object.Object) setpoint.ControllerStatus {
	stored := ComparableStatus(o)
	if r.Written && equality.Semantic.DeepEqual(stored, r.Stored) {
		return r.Status
	}
	return stored
}

// Pruned reports whether the schema prunes the whole status, so that more writes are useless.
func (r *Reported) Pruned(o *object.Object) bool {
	none := setpoint.ControllerStatus{}
	return r.Written && equality.Semantic.DeepEqual(r.Stored, none) && equality.Semantic.DeepEqual(ComparableStatus(o), none)
}

// ComparableStatus returns the stored status without the fields that setFinalizer and take write.
func ComparableStatus(o *object.Object) setpoint.ControllerStatus {
	if o == nil {
		return setpoint.ControllerStatus{}
	}
	stored := compile.StoredStatus(o)
	stored.Finalizes, stored.ManagedBy = nil, nil
	return stored
}

// StatusPatch returns a merge patch from one status to another. The API server refuses it
// if the object is not the one that the status was computed from: a replica that does not know yet that another one
// leads must not take back where that has moved a rollout.
func StatusPatch(of *object.Object, previous, now setpoint.ControllerStatus) (map[string]any, error) {
	before, err := fieldsOf(previous)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(now)
	if err != nil {
		return nil, err
	}
	// All fields are written: counts of 0 are the same for us as none, but not for who reads the object.
	return map[string]any{"metadata": IdentityOf(of), "status": object.CombinePatches(object.PatchBetween(before, after), after)}, nil
}

func fieldsOf(status setpoint.ControllerStatus) (fields map[string]any, err error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &fields)
	return fields, err
}
