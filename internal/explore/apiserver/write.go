package apiserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

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

// outcome is what a write leads to.
type outcome struct {
	// slot is what is stored under the name; the same if nothing was written.
	slot *slot
	code int
	// stored is the object in the response. If it is nil, the response is failure or body.
	stored  *Stored
	failure error
	body    []byte
}

// outcomeKey identifies a write. The slot is nil if no object ever had the name.
type outcomeKey struct {
	slot    *slot
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
	if out.slot != w.slot && out.slot != nil {
		state = state.with(out.slot)
	}
	return state, w.response(out)
}

// remembered returns what the write leads to.
func (w *write) remembered() *outcome {
	key := outcomeKey{phase: w.phase, request: w.digest()}
	if w.slot.born > 0 {
		key.slot = w.slot
	}
	if known, found := w.server.outcomes.Get(key); found {
		return known.(*outcome)
	}
	out, err := w.do()
	if err != nil {
		out = &outcome{failure: err}
	}
	if out.slot == nil || w.dryRun() {
		out.slot = nil
	} else if out.slot != w.slot {
		out.slot = w.server.shared(out.slot)
	}
	w.server.outcomes.Add(key, out)
	return out
}

// digest returns a digest of the request.
func (w *write) digest() (digest [16]byte) {
	sum := sha256.New()
	for _, text := range []string{
		w.method, w.kind.Group, w.kind.Version, w.kind.Plural, w.namespace, w.name, w.subresource, w.contentType, w.rawQuery, w.agent,
	} {
		fmt.Fprintf(sum, "%s\x00", text)
	}
	sum.Write(w.body)
	copy(digest[:], sum.Sum(nil))
	return digest
}

// slotKey is the content of a slot.
type slotKey struct {
	kind            *kind
	namespace, name string
	born, written   uint64
	content         [32]byte
}

// shared returns an equal slot if there is one, so that writes of it are remembered and states are small.
func (s *Server) shared(at *slot) *slot {
	key := slotKey{kind: at.kind, namespace: at.namespace, name: at.name, born: at.born, written: at.written}
	if at.stored != nil {
		key.content = sha256.Sum256(at.stored.JSONWithManagedFields())
	}
	if known, found := s.slots.Get(key); found {
		return known.(*slot)
	}
	s.slots.Add(key, at)
	return at
}

func (w *write) response(out *outcome) response {
	switch {
	case out.failure != nil:
		return failed(out.failure)
	case out.stored == nil:
		return succeeded(out.code, out.body)
	}
	return succeeded(out.code, w.view(out.stored))
}

func (w *write) do() (*outcome, error) {
	if w.subresource != "" && !w.hasSubresource() {
		return nil, errNoSuchPath
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

func (w *write) hasSubresource() bool {
	switch w.subresource {
	case "status":
		return w.kind.Status && (w.method == http.MethodPut || w.method == http.MethodPatch)
	case "finalize":
		return w.kind.Kind == namespaces.Kind && w.method == http.MethodPut
	case "binding":
		return fullName(w.kind.Resource) == "Pod" && w.method == http.MethodPost
	}
	return false
}

// decode reads an object of the request.
func (w *write) decode(data []byte) (*unstructured.Unstructured, error) {
	fields, unknown, err := w.kind.schema.decode(data)
	if err == nil && len(unknown) > 0 && w.isStrict() {
		err = fmt.Errorf("strict decoding error: %s", strings.Join(unknown, ", "))
	}
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// bodyObject reads the object in the body.
func (w *write) bodyObject() (*unstructured.Unstructured, error) {
	o, err := w.decode(w.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", w.kind.Kind, w.kind.Version, w.kind.Kind, err))
	}
	return o, w.checkNamespace(o)
}

// checkNamespace sets the namespace of the request if the object has none.
func (w *write) checkNamespace(o *unstructured.Unstructured) error {
	switch o.GetNamespace() {
	case w.namespace:
		return nil
	case "":
		o.SetNamespace(w.namespace)
		return nil
	}
	if !w.kind.Namespaced {
		o.SetNamespace("")
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// liveObject returns a copy of the stored object.
func (w *write) liveObject() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(w.live.JSONWithManagedFields()); err != nil {
		return w.kind.new() // It is stored, so it is valid.
	}
	o.SetAPIVersion(w.kind.APIVersion())
	return o
}

// managed sets the managed fields of an update.
func (w *write) managed(live, o *unstructured.Unstructured) *unstructured.Unstructured {
	manager := w.kind.managers[w.subresource]
	if manager == nil {
		return o
	}
	changed, _ := manager.UpdateNoErrors(live, o, w.manager()).(*unstructured.Unstructured)
	return changed
}

// store returns the outcome of a write that stores an object.
func (w *write) store(code int, o *unstructured.Unstructured) (*outcome, error) {
	stopTime(o, w.server.now)
	after := *w.slot
	if w.live == nil {
		after.born++
	} else {
		same, err := w.newStored(o, w.live.ResourceVersion())
		if err != nil {
			return nil, err
		}
		if bytes.Equal(same.JSONWithManagedFields(), w.live.JSONWithManagedFields()) {
			return &outcome{slot: w.slot, code: code, stored: w.live}, nil
		}
	}
	after.written++
	var err error
	after.stored, err = w.newStored(o, fmt.Sprint(after.written))
	return &outcome{slot: &after, code: code, stored: after.stored}, err
}

func (w *write) newStored(o *unstructured.Unstructured, version string) (*Stored, error) {
	o.SetResourceVersion(version)
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	parsed, err := object.ParseWithManagedFields(data, "", "")
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	stored := &Stored{resource: w.server.groups[w.kind.GroupKind()].Resource, Object: parsed}
	stored.fingerprint = fingerprintOf(parsed.JSONWithManagedFields())
	return stored, nil
}

// remove returns the outcome of a write after which there is no object. Its response is the object, or a Status
// that names it.
func (w *write) remove(response *Stored) (*outcome, error) {
	after := *w.slot
	after.written++
	after.stored = nil
	out := &outcome{slot: &after, code: http.StatusOK, stored: response}
	if response != nil {
		return out, nil
	}
	var err error
	out.body, err = json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: w.name, Group: w.kind.Group, Kind: w.kind.Plural, UID: types.UID(w.live.UID())},
	})
	return out, err
}
