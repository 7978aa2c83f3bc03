package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// write is a request that writes one object. What it leads to depends on its fields alone, so that it is remembered.
type write struct {
	*request
	server *Server
	slot   Slot
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

// outcomeKey identifies a write.
type outcomeKey struct {
	slot  Slot
	phase namespacePhase
	kind  *kinds.Definition

	method, subresource, contentType, query, agent, body string
}

// write writes one object.
func (s *Server) write(state *State, req *request) (*State, response) {
	w := &write{request: req, server: s, phase: state.phase(req)}
	if req.method == http.MethodPost && req.name == "" {
		req.name = state.nameFor(req)
	}
	w.slot = state.At(req.kind.Ref(req.namespace, req.name))
	w.live = w.slot.Object
	out := w.remembered()
	if out.failure != nil {
		return state, failed(out.failure)
	}
	after := w.slot
	after.Written++
	switch out.effect {
	case nothing:
	case stores:
		if after.Object == nil {
			after.Born++
		}
		after.Object = out.after
		state = state.with(after)
	case removes:
		after.Object = nil
		state = state.with(after)
	}
	if out.body != nil {
		return state, response{out.code, out.body}
	}
	return state, response{out.code, w.view(out.after)}
}

// remembered returns what the write leads to.
func (w *write) remembered() *outcome {
	key := outcomeKey{w.slot, w.phase, w.kind, w.method, w.subresource, w.contentType, w.rawQuery, w.agent, string(w.body)}
	if known, found := w.server.outcomes.Get(key); found {
		return known.(*outcome) //nolint:forcetypeassert // The cache has nothing else.
	}
	out, err := w.do()
	if err != nil {
		out = &outcome{failure: err}
	}
	if w.dryRun() {
		out.effect = nothing
	}
	w.server.outcomes.Add(key, out)
	return out
}

func (w *write) do() (*outcome, error) {
	if w.subresource != "" && !w.hasSubresource() {
		return nil, noSuchPath()
	}
	if w.method == http.MethodDelete {
		return w.delete()
	}
	switch w.method {
	case http.MethodPost:
		if w.subresource == "binding" {
			return w.bind()
		}
		return w.create()
	case http.MethodPut:
		return w.put()
	case http.MethodPatch:
		return w.patch()
	}
	return nil, apierrors.NewMethodNotSupported(w.groupResource(), w.method)
}

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

// store returns the outcome of a write that stores an object.
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
		after, err = numbered(stored, strconv.FormatUint(w.slot.Written+1, 10))
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
