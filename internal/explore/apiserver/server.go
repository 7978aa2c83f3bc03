// Package apiserver is an API server in memory. What it stores is an immutable value, so that a search can go on
// from any state.
//
// It handles requests of client-go as kube-apiserver does, with the same libraries: managed fields, defaulting,
// pruning and validation by the schemas of CRDs, preconditions, finalizers, and the garbage collector as single
// steps. It has no admission, no quotas, no watches, and of the defaults and rules of built-in kinds only those that
// a controller notices.
package apiserver

import (
	"fmt"
	"net/http"
	"time"

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
		defined, err := kinds.Custom(crd)
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
