package apiserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Request is a request of a client, for a kind that is served.
type Request struct {
	Method      string
	Resource    object.Resource
	Namespace   string
	Name        string
	Subresource string
	// Type is the content type; JSON if empty.
	Type types.PatchType
	Body []byte
	// Strict asks the server to refuse unknown fields, which it drops otherwise.
	Strict bool
}

// Send sends a request of a field manager: of a user, the kubelet, the garbage collector. It returns the object in the
// response, nil if there is none.
func (s *Server) Send(state *State, manager string, r Request) (*State, *object.Object, error) {
	query := url.Values{"fieldManager": {manager}}
	if r.Type == types.ApplyYAMLPatchType {
		query.Set("force", "true")
	}
	if r.Strict {
		query.Set("fieldValidation", metav1.FieldValidationStrict)
	}
	after, response := s.handle(state, &request{
		method: r.Method, kind: s.kinds[endpoint{r.Resource.Group, r.Resource.Version, r.Resource.Plural}], namespace: r.Namespace,
		name: r.Name, subresource: r.Subresource, contentType: cmp.Or(string(r.Type), "application/json"),
		rawQuery: query.Encode(), query: query, body: r.Body,
	})
	o, err := response.toObject()
	return after, o, err
}

// toObject returns the object in a response, or its error.
func (a response) toObject() (*object.Object, error) {
	if a.code >= http.StatusBadRequest {
		var status metav1.Status
		if err := json.Unmarshal(a.body, &status); err != nil {
			return nil, apierrors.NewGenericServerResponse(a.code, "", metav1.SchemeGroupVersion.WithResource("").GroupResource(), "",
				string(a.body), 0, false)
		}
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	o, err := object.Parse(a.body)
	if err != nil || o.Kind() == "Status" {
		return nil, err
	}
	return o, nil
}

// CreationOf returns the request that creates an object.
func CreationOf(resource object.Resource, o *object.Object) Request {
	return Request{Method: http.MethodPost, Resource: resource, Namespace: o.Namespace(), Body: o.JSON()}
}

// PatchOf returns the request with a JSON merge patch for an object.
func PatchOf(resource object.Resource, o *object.Object, subresource string, patch map[string]any) Request {
	return Request{
		Method: http.MethodPatch, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Subresource: subresource,
		Type: types.MergePatchType, Body: encoded(patch),
	}
}

// DeletionOf returns the request that deletes an object.
func DeletionOf(resource object.Resource, o *object.Object, options metav1.DeleteOptions) Request {
	options.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	return Request{Method: http.MethodDelete, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Body: encoded(options)}
}

func encoded(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic("encode a request: " + err.Error()) // Values are those of JSON.
	}
	return data
}
