package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Do handles a request as kube-apiserver would. The state after it differs only if something was stored.
func (s *Server) Do(state *State, r *http.Request) (*State, *http.Response) {
	req, err := s.parse(r)
	if err != nil {
		return state, failed(err).toHTTP(r)
	}
	after, response := s.handle(state, req)
	return after, response.toHTTP(r)
}

func (s *Server) handle(state *State, req *request) (*State, response) {
	switch {
	case req.method == http.MethodGet && req.name == "":
		found := state.list(req)
		return state, found
	case req.method == http.MethodGet:
		found := state.get(req)
		return state, found
	case req.method == http.MethodPost && req.subresource == "eviction" && req.kind.IsPod():
		return s.evict(state, req)
	case req.method == http.MethodPost && (req.name != "") != (req.subresource == "binding"):
		return state, failed(apierrors.NewMethodNotSupported(req.groupResource(), "create"))
	}
	return s.write(state, req)
}

func (s *State) get(req *request) response {
	if req.subresource != "" && (req.subresource != "status" || !req.kind.Status) {
		return failed(noSuchPath())
	}
	o := s.Get(req.kind.Resource, req.namespace, req.name)
	if o == nil {
		return failed(apierrors.NewNotFound(req.groupResource(), req.name))
	}
	return response{http.StatusOK, req.view(o)}
}

// list returns all matching objects in one page: a server need not honor a limit.
func (s *State) list(req *request) response {
	found, err := s.matching(req)
	if err != nil {
		return failed(err)
	}
	kind, apiVersion := req.kind.Kind+"List", req.kind.APIVersion()
	if req.wantsMetadata() {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":{},"items":[`, kind, apiVersion)
	for i, stored := range found {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(req.view(stored))
	}
	b.WriteString("]}")
	return response{http.StatusOK, b.Bytes()}
}

// matching returns the objects that match the selector of a request.
func (s *State) matching(req *request) ([]*object.Object, error) {
	selector, err := labels.Parse(req.query.Get("labelSelector"))
	if err != nil {
		return nil, badRequest(err)
	}
	var found []*object.Object
	for o := range s.Objects() {
		isOf := o.GroupKind() == req.kind.GroupKind() && (req.namespace == "" || o.Namespace() == req.namespace)
		if isOf && selector.Matches(o.Labels()) {
			found = append(found, o)
		}
	}
	return found, nil
}

// outcomeKey identifies a write.
type outcomeKey struct {
	entry Entry
	phase namespacePhase
	kind  *kinds.Definition

	method, subresource, contentType, query, agent, body string
}

func (s *Server) write(state *State, req *request) (*State, response) {
	w := &write{request: req, server: s, phase: state.phase(req)}
	if req.method == http.MethodPost && req.name == "" {
		req.name = state.nameFor(req)
	}
	w.entry = state.At(req.kind.Ref(req.namespace, req.name))
	w.live = w.entry.Object
	out := w.remembered()
	if out.failure != nil {
		return state, failed(out.failure)
	}
	after := w.entry
	after.Written++
	switch out.effect {
	case nothing:
	case stores:
		if after.Object == nil {
			after.Incarnations++
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
	key := outcomeKey{w.entry, w.phase, w.kind, w.method, w.subresource, w.contentType, w.rawQuery, w.agent, string(w.body)}
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
		return w.deleteLive()
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
