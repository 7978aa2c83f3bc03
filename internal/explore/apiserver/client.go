package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Client writes as another program would: a user, the kubelet, the garbage collector. All goes through Do.
type Client struct {
	server  *Server
	manager string
}

// As returns a client with a field manager.
func (s *Server) As(manager string) Client { return Client{s, manager} }

// Request is a request of a client.
type Request struct {
	Method      string
	Resource    object.Resource
	Namespace   string
	Name        string
	Subresource string
	// Type is the content type; JSON if empty.
	Type types.PatchType
	Body []byte
}

// Send sends a request. It returns the object in the response, nil if there is none.
func (c Client) Send(state *State, r Request) (*State, *object.Object, error) {
	path := r.Resource.Path(r.Namespace, r.Name)
	if r.Subresource != "" {
		path += "/" + r.Subresource
	}
	query := url.Values{"fieldManager": {c.manager}}
	if r.Type == types.ApplyYAMLPatchType {
		query.Set("force", "true")
	}
	req, err := http.NewRequest(r.Method, (&url.URL{Path: path, RawQuery: query.Encode()}).String(), bytes.NewReader(r.Body)) //nolint:noctx // Nothing is sent.
	if err != nil {
		return state, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.Type != "" {
		req.Header.Set("Content-Type", string(r.Type))
	}
	after, response := c.server.respond(state, req)
	o, err := response.object()
	return after, o, err
}

// object returns the object in a response, or its error.
func (a response) object() (*object.Object, error) {
	if a.code >= http.StatusBadRequest {
		var status metav1.Status
		if err := json.Unmarshal(a.body, &status); err != nil {
			return nil, apierrors.NewGenericServerResponse(a.code, "", metav1.SchemeGroupVersion.WithResource("").GroupResource(), "", string(a.body), 0, false)
		}
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	o, err := object.Parse(a.body)
	if err != nil || o.Kind() == "Status" {
		return nil, err
	}
	return o, nil
}

// Create creates an object.
func (c Client) Create(state *State, resource object.Resource, o *object.Object) (*State, *object.Object, error) {
	return c.Send(state, Request{Method: http.MethodPost, Resource: resource, Namespace: o.Namespace(), Body: o.JSON()})
}

// Patch sends a JSON merge patch for an object.
func (c Client) Patch(state *State, resource object.Resource, o *object.Object, subresource string, patch any) (*State, *object.Object, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return state, nil, err
	}
	return c.Send(state, Request{
		Method: http.MethodPatch, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Subresource: subresource,
		Type: types.MergePatchType, Body: body,
	})
}

// Delete deletes an object.
func (c Client) Delete(state *State, resource object.Resource, o *object.Object, options metav1.DeleteOptions) (*State, *object.Object, error) {
	options.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(options)
	if err != nil {
		return state, nil, err
	}
	return c.Send(state, Request{Method: http.MethodDelete, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Body: body})
}
