package apiserver

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
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
	case req.method == http.MethodDelete && req.name == "":
		return s.deleteAll(state, req)
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
	if req.query.Get("watch") == "true" {
		return failed(apierrors.NewMethodNotSupported(req.groupResource(), "watch"))
	}
	found, err := s.matching(req)
	if err != nil {
		return failed(err)
	}
	kind, apiVersion := req.kind.Kind+"List", req.kind.APIVersion()
	if req.wantsMetadata() {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":%q},"items":[`,
		kind, apiVersion, s.version())
	for i, stored := range found {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(req.view(stored))
	}
	b.WriteString("]}")
	return response{http.StatusOK, b.Bytes()}
}

// version is the resource version of lists: the number of all writes.
func (s *State) version() string {
	writes := uint64(0)
	for i := range s.Slots {
		writes += s.Slots[i].Written
	}
	return strconv.FormatUint(writes, 10)
}

// matching returns the objects that match the selectors of a request.
func (s *State) matching(req *request) ([]*object.Object, error) {
	byLabels, err := labels.Parse(req.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byFields, err := fields.ParseSelector(req.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var found []*object.Object
	for o := range s.Objects() {
		isOf := o.GroupKind() == req.kind.GroupKind() && (req.namespace == "" || o.Namespace() == req.namespace)
		if isOf && byLabels.Matches(o.Labels()) && byFields.Matches(selectableFields(o)) {
			found = append(found, o)
		}
	}
	return found, nil
}

// selectableFields are the fields that all kinds can be selected by, and those of pods.
func selectableFields(o *object.Object) fields.Set {
	set := fields.Set{"metadata.name": o.Name(), "metadata.namespace": o.Namespace()}
	if o.Kind() == "Pod" {
		for name, path := range map[string][]string{"spec.nodeName": {"spec", "nodeName"}, "status.phase": {"status", "phase"}} {
			if quoted := o.Field(path...); quoted != nil {
				set[name] = string(object.Unquoted(quoted))
			}
		}
	}
	return set
}

// deleteAll deletes the objects of a collection one by one.
func (s *Server) deleteAll(state *State, req *request) (*State, response) {
	found, err := state.matching(req)
	if err != nil {
		return state, failed(err)
	}
	response := state.list(req)
	for _, stored := range found {
		one := *req
		one.namespace, one.name = stored.Namespace(), stored.Name()
		after, outcome := s.write(state, &one)
		if outcome.code >= http.StatusBadRequest && outcome.code != http.StatusNotFound {
			return after, outcome
		}
		state = after
	}
	return state, response
}
