package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
)

func (w *write) put() (*outcome, error) {
	o, err := w.bodyObject()
	if err != nil {
		return nil, err
	}
	if err := w.checkName(o); err != nil {
		return nil, err
	}
	if w.live == nil {
		return w.putNew(o)
	}
	if uid := string(o.GetUID()); uid != "" && uid != w.live.UID() {
		return nil, apierrors.NewConflict(w.groupResource(), w.name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, w.live.UID()))
	}
	live := w.liveObject()
	return w.update(live, w.managed(live.DeepCopy(), o))
}

// putNew creates the object of a PUT, if its kind allows that.
func (w *write) putNew(o *unstructured.Unstructured) (*outcome, error) {
	if !w.kind.Rules.CreateOnUpdate || w.subresource != "" {
		return nil, apierrors.NewNotFound(w.groupResource(), w.name)
	}
	if uid := o.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(w.groupResource(), w.name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: ", uid))
	}
	o = w.managed(w.kind.New(), o)
	wipeSystemFields(o)
	return w.insert(o)
}

// update stores an object in place of the live one.
func (w *write) update(live, o *unstructured.Unstructured) (*outcome, error) {
	if err := w.checkVersion(o); err != nil {
		return nil, err
	}
	if err := w.checkNamespace(o); err != nil {
		return nil, err
	}
	w.prepareUpdate(live, o)
	if errs := w.kind.Schema.Validate(o, live, w.subresource == "status"); len(errs) > 0 {
		return nil, apierrors.NewInvalid(w.kind.GVK().GroupKind(), w.name, errs)
	}
	if isFinalized(live, o) {
		// The response is the object of the request: nothing has read it from the store.
		stopTime(o)
		last, err := numbered(o, w.live.ResourceVersion())
		return &outcome{effect: removes, code: http.StatusOK, after: last}, err
	}
	return w.store(http.StatusOK, o)
}

// checkVersion checks the resource version of an update.
func (w *write) checkVersion(o *unstructured.Unstructured) error {
	switch o.GetResourceVersion() {
	case w.live.ResourceVersion():
		return nil
	case "", "0":
		if !w.kind.Rules.Conditional {
			o.SetResourceVersion(w.live.ResourceVersion())
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: w.kind.Group, Kind: w.kind.Plural}, w.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	return apierrors.NewConflict(w.groupResource(), w.name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// prepareUpdate restores what an update cannot change.
func (w *write) prepareUpdate(live, o *unstructured.Unstructured) {
	o.SetGeneration(live.GetGeneration())
	switch w.subresource {
	case "finalize":
		prepareFinalize(live, o)
	case "status":
		w.prepareStatus(live, o)
	default:
		w.prepareObject(live, o)
	}
	if o.GetUID() == "" {
		o.SetUID(live.GetUID())
	}
	o.SetCreationTimestamp(live.GetCreationTimestamp())
	if live.GetDeletionTimestamp() != nil {
		o.SetDeletionTimestamp(live.GetDeletionTimestamp())
	}
	if live.GetDeletionGracePeriodSeconds() != nil && o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(live.GetDeletionGracePeriodSeconds())
	}
}

// prepareObject restores the status, and counts the generations.
func (w *write) prepareObject(live, o *unstructured.Unstructured) {
	if w.kind.Status {
		restore(live, o, "status")
	}
	if prepare := w.kind.Rules.Prepare; prepare != nil {
		prepare(o, live)
	}
	if w.kind.Rules.Generation && w.hasNewSpec(live, o) {
		o.SetGeneration(live.GetGeneration() + 1)
	}
}

// hasNewSpec reports whether an update changes what generations count: everything but metadata and, of built-in
// kinds, the status.
func (r *request) hasNewSpec(live, o *unstructured.Unstructured) bool {
	for _, each := range []*unstructured.Unstructured{live, o} {
		for name := range each.Object {
			if name != "metadata" && (r.kind.Custom || name != "status") && !reflect.DeepEqual(live.Object[name], o.Object[name]) {
				return true
			}
		}
	}
	return false
}

// prepareStatus restores all but the status. For built-in kinds an update of the status may change annotations,
// finalizers and, of pods, labels.
func (r *request) prepareStatus(live, o *unstructured.Unstructured) {
	managed, metadata := o.GetManagedFields(), o.Object["metadata"]
	after := live.DeepCopy().Object
	restore(o, &unstructured.Unstructured{Object: after}, "status")
	o.Object = after
	if r.kind.Custom {
		o.SetManagedFields(managed)
		return
	}
	o.Object["metadata"] = metadata
	o.SetOwnerReferences(live.GetOwnerReferences())
	if r.kind.Kind != "Pod" {
		o.SetLabels(live.GetLabels())
	}
}

// restore sets a member to the value that it has in another object.
func restore(from, o *unstructured.Unstructured, name string) {
	value, there := from.Object[name]
	if !there {
		delete(o.Object, name)
		return
	}
	o.Object[name] = value
}

// isFinalized reports whether an update removes the last finalizer of an object that is being deleted.
func isFinalized(live, o *unstructured.Unstructured) bool {
	grace := live.GetDeletionGracePeriodSeconds()
	return live.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0) && !hasSpecFinalizers(o)
}

// prepareFinalize keeps all but the finalizers in the spec.
func prepareFinalize(live, o *unstructured.Unstructured) {
	finalizers := kinds.Nested(o, "spec", "finalizers")
	managed := o.GetManagedFields()
	o.Object = live.DeepCopy().Object
	o.SetManagedFields(managed)
	kinds.SetNested(o, finalizers, "spec", "finalizers")
}

// hasSpecFinalizers reports whether a namespace still has content, as far as its spec says.
func hasSpecFinalizers(o *unstructured.Unstructured) bool {
	finalizers, _ := kinds.Nested(o, "spec", "finalizers").([]any)
	return len(finalizers) > 0 && o.GetKind() == namespaces.Kind && o.GetAPIVersion() == namespaces.Version
}

func (w *write) patch() (*outcome, error) {
	if !slices.Contains([]types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType}, w.patchType()) {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, w.method, w.groupResource(), w.name,
			fmt.Sprintf("the body of the request was in an unknown format - %s is not supported", w.contentType), 0, false)
	}
	if w.patchType() == types.ApplyYAMLPatchType {
		return w.apply()
	}
	if w.live == nil {
		return nil, apierrors.NewNotFound(w.groupResource(), w.name)
	}
	data, err := w.patched()
	if err != nil {
		return nil, err
	}
	o, err := w.decode(data)
	if err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(data),
			err.Error())})
	}
	live := w.liveObject()
	return w.replace(live, w.managed(live.DeepCopy(), o))
}

// replace stores the result of a patch.
func (w *write) replace(live, o *unstructured.Unstructured) (*outcome, error) {
	if err := w.checkIdentity(o); err != nil {
		return nil, err
	}
	return w.update(live, o)
}

// patched returns the live object with a patch.
func (w *write) patched() ([]byte, error) {
	live, err := json.Marshal(w.liveObject().Object)
	if err != nil {
		return nil, err
	}
	if w.patchType() == types.JSONPatchType {
		return w.jsonPatched(live)
	}
	data, err := jsonpatch.MergePatch(live, w.body)
	return data, badRequest(err)
}

func (w *write) jsonPatched(live []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(w.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	data, err := patch.Apply(live)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0,
			false)
	}
	return data, nil
}

// apply handles a server-side apply, which may create the object.
func (w *write) apply() (*outcome, error) {
	config := &unstructured.Unstructured{Object: map[string]any{}}
	unmarshal := func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
	if w.isStrict() {
		unmarshal = func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) }
	}
	if err := unmarshal(w.body, &config.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if w.live == nil && w.subresource != "" {
		return nil, apierrors.NewNotFound(w.groupResource(), w.name)
	}
	live := w.kind.New()
	if w.live != nil {
		live = w.liveObject()
	}
	o, err := w.merged(live, config)
	if err != nil {
		return nil, err
	}
	if w.live != nil {
		return w.replace(live, o)
	}
	return w.applyNew(o)
}

// applyNew stores an applied object that does not exist.
func (w *write) applyNew(o *unstructured.Unstructured) (*outcome, error) {
	if uid := o.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(w.groupResource(), w.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := w.checkIdentity(o); err != nil {
		return nil, err
	}
	wipeSystemFields(o)
	return w.insert(o)
}

// merged returns the live object with the applied fields. It is read again: the merge is no typed value.
func (w *write) merged(live, config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	force := w.query.Get("force") == "true"
	merged, err := w.kind.Managers[w.subresource].Apply(live.DeepCopy(), config, w.query.Get("fieldManager"), force)
	if err != nil {
		return nil, err
	}
	if merged == nil {
		return live, nil
	}
	o, is := merged.(*unstructured.Unstructured)
	if !is {
		return nil, fmt.Errorf("the merge is a %T", merged)
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	if custom, is := w.kind.Schema.(interface {
		Merged(data []byte) (map[string]any, error)
	}); is {
		o.Object, err = custom.Merged(data)
		return o, err
	}
	return w.decode(data)
}
