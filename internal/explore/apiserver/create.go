package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// nameFor returns the name of the object in the body of a POST. A generated name is the first that no object ever
// had: random ones would make equal histories differ.
func (s *State) nameFor(r *request) string {
	var o struct {
		Metadata struct{ Name, GenerateName string }
	}
	if json.Unmarshal(r.body, &o) != nil || o.Metadata.Name != "" || o.Metadata.GenerateName == "" {
		return o.Metadata.Name
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s%05d", o.Metadata.GenerateName, n)
		if _, had := s.search(r.kind.Ref(r.namespace, name)); !had {
			return name
		}
	}
}

// create handles POST.
func (w *write) create() (*outcome, error) {
	o, err := w.bodyObject()
	if err != nil {
		return nil, err
	}
	wipeSystemFields(o)
	return w.insert(w.managed(w.kind.New(), o))
}

// wipeSystemFields removes what only the server sets.
func wipeSystemFields(o *unstructured.Unstructured) {
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", name)
	}
}

// insert stores a new object.
func (w *write) insert(o *unstructured.Unstructured) (*outcome, error) {
	if err := w.checkPhase(); err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(w.name)
	}
	w.prepareCreation(o)
	if errs := w.kind.Schema.Validate(o, nil, false); len(errs) > 0 {
		return nil, apierrors.NewInvalid(w.kind.GVK().GroupKind(), o.GetName(), errs)
	}
	switch {
	case w.method == http.MethodPost && o.GetResourceVersion() != "" && !w.dryRun():
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	case w.live != nil:
		err := apierrors.NewAlreadyExists(w.groupResource(), o.GetName())
		if w.live.Deleting() {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
		return nil, err
	}
	return w.store(http.StatusCreated, o)
}

// prepareCreation sets what the server sets in a new object.
func (w *write) prepareCreation(o *unstructured.Unstructured) {
	o.SetCreationTimestamp(metav1.NewTime(Epoch))
	o.SetUID(types.UID(newUID(w.kind.GroupKind(), w.namespace, w.name, w.slot.Born+1)))
	if w.kind.Rules.Generation {
		o.SetGeneration(1)
	}
	if w.kind.Status {
		delete(o.Object, "status")
		if !w.kind.Custom {
			o.Object["status"] = map[string]any{}
		}
	}
	if prepare := w.kind.Rules.Prepare; prepare != nil {
		prepare(o, nil)
	}
}
