package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// patch handles PATCH.
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
	if err := w.checkNamespace(o); err != nil {
		return nil, err
	}
	if err := w.checkName(o); err != nil {
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

func badRequest(err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewBadRequest(err.Error())
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
	if err := w.checkNamespace(o); err != nil {
		return nil, err
	}
	if err := w.checkName(o); err != nil {
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
