// Package apiserver is an API server in memory. What it stores is an immutable value, so that a search can go on
// from any state.
//
// It handles requests of client-go as kube-apiserver does, with the same libraries: managed fields, defaulting,
// pruning and validation by the schemas of CRDs, preconditions, finalizers, and the garbage collector as single
// steps. It has no admission, no quotas, no watches, and of the defaults and rules of built-in kinds only those that
// a controller notices.
package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Server. The zero value has namespaces only.
type Options struct {
	// Kinds are the kinds that no CRD defines.
	Kinds []object.Resource
	// CRDs are CustomResourceDefinitions as JSON.
	CRDs [][]byte
	// Namespaces exist in the empty state besides "default".
	Namespaces []string
}

// Epoch is the time of all writes. Time stands still: equal histories then lead to equal objects.
//
//nolint:gochecknoglobals // A time cannot be a constant.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Server knows the kinds. It stores nothing, and is safe for concurrent use.
type Server struct {
	kinds map[endpoint]*kinds.Definition
	// groups are the kinds in the first version that was given.
	groups map[object.GroupKind]*kinds.Definition
	empty  *State
	// outcomes remembers what writes led to: the same write of the same object is made in thousands of states.
	outcomes *lru.Cache
}

// rememberedOutcomes is the number of writes that are remembered.
const rememberedOutcomes = 1 << 14

// endpoint is the first part of a request's path.
type endpoint struct{ group, version, plural string }

// namespaces is the kind Namespace, which every server has.
//
//nolint:gochecknoglobals // A struct cannot be a constant.
var namespaces = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", Status: true}

// New returns a Server.
func New(options Options) (*Server, error) {
	s := &Server{
		kinds: map[endpoint]*kinds.Definition{}, groups: map[object.GroupKind]*kinds.Definition{}, empty: &State{},
		outcomes: lru.New(rememberedOutcomes),
	}
	builtins := append([]object.Resource{namespaces}, options.Kinds...)
	for _, resource := range builtins {
		k, err := kinds.Builtin(resource)
		if err != nil {
			return nil, fmt.Errorf("prepare %s: %w", resource, err)
		}
		s.addKind(k)
	}
	for _, crd := range options.CRDs {
		defined, err := kinds.FromCRD(crd)
		if err != nil {
			return nil, fmt.Errorf("read the CustomResourceDefinition %w", err)
		}
		for _, k := range defined {
			s.addKind(k)
		}
	}
	if err := s.createNamespaces(append([]string{"default"}, options.Namespaces...)); err != nil {
		return nil, err
	}
	return s, nil
}

// addKind adds a kind in one version.
func (s *Server) addKind(k *kinds.Definition) {
	if s.groups[k.GroupKind()] == nil {
		s.groups[k.GroupKind()] = k
	}
	s.kinds[endpoint{k.Group, k.Version, k.Plural}] = k
}

func (s *Server) createNamespaces(names []string) error {
	for _, name := range names {
		if s.empty.Get(namespaces, "", name) != nil {
			continue
		}
		after, _, err := s.Send(s.empty, "kube-apiserver", Request{Method: http.MethodPost, Resource: namespaces,
			Body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)})
		if err != nil {
			return fmt.Errorf("create namespace: %w", err)
		}
		s.empty = after
	}
	return nil
}

// Empty returns the state with namespaces only.
func (s *Server) Empty() *State { return s.empty }

// Resource returns the served resource of a kind, in the first version that was given.
func (s *Server) Resource(kind object.GroupKind) (object.Resource, bool) {
	k, found := s.groups[kind]
	if !found {
		return object.Resource{}, false
	}
	return k.Resource, true
}

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

// PatchOf returns the request with changes of an object, as a JSON merge patch.
func PatchOf(resource object.Resource, o *object.Object, subresource string, changes map[string]any) Request {
	return Request{
		Method: http.MethodPatch, Resource: resource, Namespace: o.Namespace(), Name: o.Name(), Subresource: subresource,
		Type: types.MergePatchType, Body: encoded(changes),
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
