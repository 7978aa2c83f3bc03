package apiserver

import (
	"bytes"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// handle handles a request.
func (s *Server) handle(state *State, req *request) (*State, response) {
	switch {
	case req.method == http.MethodGet && req.name == "":
		found := state.list(req)
		return state, found
	case req.method == http.MethodGet:
		found := state.get(req)
		return state, found
	case req.method == http.MethodPost && req.subresource == "eviction" && kinds.FullName(req.kind.Resource) == "Pod":
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
