package apiserver

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// write is a request that writes one object. What it leads to depends on its fields alone, so that it is remembered.
type write struct {
	*request
	server *Server
	slot   *slot
	// live is the stored object; nil if there is none.
	live *Stored
	// phase is that of the namespace.
	phase namespacePhase
}

// outcome is what a write leads to, without resource versions.
type outcome struct {
	effect effect
	// after is what is stored if the effect is stores. It is also the object in the response, if that is not a body.
	after *content
	// live reports whether the response is the live object.
	live    bool
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

// outcomeKey identifies a write. The content is nil if no object has the name.
type outcomeKey struct {
	live    *content
	born    uint64
	phase   namespacePhase
	request [16]byte
}

// write writes one object.
func (s *Server) write(state *State, req *request) (*State, response) {
	w := &write{request: req, server: s, phase: state.phase(req)}
	if req.method == http.MethodPost && req.name == "" {
		req.name = state.nameFor(req)
	}
	w.slot = state.find(req.kind, req.namespace, req.name)
	w.live = w.slot.stored
	out := w.remembered()
	if out.failure != nil {
		return state, failed(out.failure)
	}
	after := *w.slot
	after.written++
	switch out.effect {
	case nothing:
	case stores:
		if after.stored == nil {
			after.born++
		}
		after.stored = s.stored(req.kind, out.after, after.written)
		return state.with(&after), w.response(out, after.stored)
	case removes:
		after.stored = nil
		state = state.with(&after)
	}
	return state, w.response(out, nil)
}

// response returns the response to a write.
func (w *write) response(out *outcome, stored *Stored) response {
	switch {
	case out.body != nil:
		return succeeded(out.code, out.body)
	case out.live:
		stored = w.live
	case stored == nil && w.live != nil:
		stored = w.server.stored(w.kind, out.after, w.live.Version())
	case stored == nil:
		stored = w.server.stored(w.kind, out.after, 0)
	}
	return succeeded(out.code, w.view(stored))
}

// remembered returns what the write leads to.
func (w *write) remembered() *outcome {
	key := outcomeKey{born: w.slot.born, phase: w.phase, request: w.digest()}
	if w.live != nil {
		key.live = w.live.content
	}
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
	if err := w.validate(); err != nil {
		return nil, err
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
		// Validation will refuse it. Without an error the object has no managed fields, as in kube-apiserver.
		o.SetManagedFields(nil)
		return o
	}
	if with, is := changed.(*unstructured.Unstructured); is {
		return with
	}
	return o
}

// store returns the outcome of a write that stores an object.
func (w *write) store(code int, o *unstructured.Unstructured) (*outcome, error) {
	after, err := w.content(o)
	if err != nil {
		return nil, err
	}
	if w.live != nil && after.equal(w.live.content) {
		return unchanged(code), nil
	}
	return &outcome{effect: stores, code: code, after: after}, nil
}

// content returns what is stored of an object.
func (w *write) content(o *unstructured.Unstructured) (*content, error) {
	stopTime(o, w.server.now)
	fields, err := w.kind.Schema.Stored(o.Object)
	if err != nil {
		return nil, err
	}
	return w.server.newContent(fields)
}

// unchanged returns the outcome of a write that changes nothing.
func unchanged(code int) *outcome { return &outcome{code: code, live: true} }

// remove returns the outcome of a write after which there is no object. Its response is a Status that names it.
func (w *write) remove() (*outcome, error) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: w.name, Group: w.kind.Group, Kind: w.kind.Plural, UID: types.UID(w.live.UID())},
	})
	return &outcome{effect: removes, code: http.StatusOK, body: body}, err
}

// removeLive is remove with the object as it was as the response.
func removeLive() *outcome {
	return &outcome{effect: removes, code: http.StatusOK, live: true}
}

// stopTime sets the time of all managed fields, and sorts them as if they had been written at once.
func stopTime(o *unstructured.Unstructured, now time.Time) {
	entries := o.GetManagedFields()
	if len(entries) == 0 {
		return
	}
	at := metav1.NewTime(now)
	for i := range entries {
		entries[i].Time = &at
	}
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Manager, b.Manager),
			cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
	})
	o.SetManagedFields(entries)
}

// digest returns a digest of the request in which a resource version only says whether it is the live one: what a
// write leads to does not depend on the number.
func (w *write) digest() (digest [16]byte) {
	sum := sha256.New()
	for _, text := range []string{
		w.method, w.kind.Group, w.kind.Version, w.kind.Plural, w.namespace, w.name, w.subresource, w.contentType, w.rawQuery, w.agent,
	} {
		fmt.Fprintf(sum, "%s\x00", text)
	}
	w.addBody(sum)
	copy(digest[:], sum.Sum(nil))
	return digest
}

// addBody adds the body.
func (w *write) addBody(sum hash.Hash) {
	parent := `"metadata"`
	if w.method == http.MethodDelete {
		parent = `"preconditions"`
	}
	err := object.Members(w.body, func(name, value []byte) error {
		sum.Write(name)
		if string(name) == parent && len(value) > 0 && value[0] == '{' {
			return w.addVersioned(sum, value)
		}
		sum.Write(value)
		return nil
	})
	if err != nil {
		// It is no object, such as a JSON patch.
		sum.Write(w.body)
	}
}

// addVersioned adds an object that may have a resource version.
func (w *write) addVersioned(sum hash.Hash, data []byte) error {
	return object.Members(data, func(name, value []byte) error {
		sum.Write(name)
		if string(name) == `"resourceVersion"` && w.live != nil {
			if string(value) == `"`+w.live.ResourceVersion()+`"` {
				sum.Write([]byte("live"))
				return nil
			}
			// Messages have both.
			fmt.Fprintf(sum, "not %s but ", w.live.ResourceVersion())
		}
		sum.Write(value)
		return nil
	})
}
