package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// write is a request that writes one object. What it leads to depends on its fields alone, so that it is remembered.
type write struct {
	*request
	server *Server
	entry  Entry
	// live is the stored object; nil if there is none.
	live *object.Object
	// phase is that of the namespace.
	phase namespacePhase
}

// outcome is what a write leads to.
type outcome struct {
	effect effect
	// after is what is stored if the effect is stores. It is also the object in the response, if that is not a body.
	after   *object.Object
	code    int
	body    []byte
	failure error
}

// effect says what is stored after a write.
type effect int

const (
	nothing effect = iota
	stores
	removes
)

// liveObject returns a copy of the stored object.
func (w *write) liveObject() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(w.live.JSONWithManagedFields()); err != nil {
		return w.kind.New() // It is stored, so it is valid.
	}
	o.SetAPIVersion(w.kind.APIVersion())
	return o
}

// managed sets the managed fields of an update.
func (w *write) managed(live, o *unstructured.Unstructured) *unstructured.Unstructured {
	manager := w.kind.Managers[w.subresource]
	if manager == nil || o.GroupVersionKind() != w.kind.GVK() {
		return o // Of another kind, it will be refused.
	}
	changed, err := manager.Update(live, o, w.fieldManager())
	if err != nil {
		o.SetManagedFields(live.GetManagedFields()) // Unless validation refuses it, they stay as they were.
	} else if with, is := changed.(*unstructured.Unstructured); is {
		return with
	}
	return o
}

func (w *write) store(code int, o *unstructured.Unstructured) (*outcome, error) {
	stopTime(o)
	fields, err := w.kind.Schema.Stored(o.Object)
	if err != nil {
		return nil, err
	}
	stored, version := &unstructured.Unstructured{Object: fields}, ""
	if w.live != nil {
		version = w.live.ResourceVersion()
	}
	after, err := numbered(stored, version)
	if err != nil {
		return nil, err
	}
	if w.live != nil && bytes.Equal(after.JSONWithManagedFields(), w.live.JSONWithManagedFields()) {
		return w.unchanged(code), nil
	}
	if !w.dryRun() {
		after, err = numbered(stored, strconv.FormatUint(w.entry.Written+1, 10))
	}
	return &outcome{effect: stores, code: code, after: after}, err
}

// numbered returns an object with a resource version; "" for none.
func numbered(o *unstructured.Unstructured, version string) (*object.Object, error) {
	o.SetResourceVersion(version)
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	after, err := object.ParseWithManagedFields(data, "", "")
	return after, badRequest(err)
}

// unchanged returns the outcome of a write that changes nothing.
func (w *write) unchanged(code int) *outcome { return &outcome{code: code, after: w.live} }

// remove returns the outcome of a write after which there is no object. Its response is a Status that names it.
func (w *write) remove() (*outcome, error) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: w.name, Group: w.kind.Group, Kind: w.kind.Plural, UID: types.UID(w.live.UID())},
	})
	return &outcome{effect: removes, code: http.StatusOK, body: body}, err
}

// removeLive is remove with the object as it was as the response.
func (w *write) removeLive() *outcome {
	return &outcome{effect: removes, code: http.StatusOK, after: w.live}
}

// stopTime sets the time of all managed fields, and sorts them as if they had been written at once.
func stopTime(o *unstructured.Unstructured) {
	entries := o.GetManagedFields()
	if len(entries) == 0 {
		return
	}
	at := metav1.NewTime(Epoch)
	for i := range entries {
		entries[i].Time = &at
	}
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Manager, b.Manager),
			cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
	})
	o.SetManagedFields(entries)
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
	o.SetUID(types.UID(newUID(w.kind.GroupKind(), w.namespace, w.name, w.entry.Incarnations+1)))
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

// namespacePhase says what a namespace means for a write.
type namespacePhase int

const (
	// exists also stands for kinds without a namespace.
	exists namespacePhase = iota
	missing
	terminating
)

// phase returns the phase of a request's namespace.
func (s *State) phase(r *request) namespacePhase {
	if r.namespace == "" {
		return exists
	}
	switch namespace := s.Get(namespaces, "", r.namespace); {
	case namespace == nil:
		return missing
	case namespace.Deleting():
		return terminating
	}
	return exists
}

// checkPhase rejects a creation in a namespace that is missing or being deleted.
func (w *write) checkPhase() error {
	switch w.phase {
	case missing:
		return apierrors.NewNotFound(schema.GroupResource{Resource: namespaces.Plural}, w.namespace)
	case terminating:
		reason := fmt.Errorf("unable to create new content in namespace %s because it is being terminated", w.namespace)
		err := apierrors.NewForbidden(w.groupResource(), w.name, reason)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", w.namespace),
			Field: "metadata.namespace",
		})
		return err
	}
	return nil
}
