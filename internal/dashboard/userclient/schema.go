package userclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// schemaCache caches OpenAPI schemas by group and version. They are the same for all users.
type schemaCache struct {
	requester

	mu   sync.Mutex
	read map[string]*definitions
}

// definitions are the schemas of one group and version. The address has a hash of them.
type definitions struct {
	address string
	byName  map[string]*spec.Schema
	byKind  map[string]*spec.Schema
}

// find returns the definitions of a group and version, from the cache if their address is the same. An
// API server that is unreachable, or that has just started, may not describe custom resources yet.
func (s *schemaCache) find(ctx context.Context, kind object.Kind) (*definitions, error) {
	at := "apis/" + kind.APIVersion()
	if kind.Group == "" {
		at = "api/" + kind.Version
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	err := s.get(ctx, mediaTypeJSON, s.rest.Get().AbsPath("/openapi/v3"), &index)
	address := index.Paths[at].ServerRelativeURL
	s.mu.Lock()
	known := s.read[at]
	s.mu.Unlock()
	switch {
	case known != nil && (address == "" || address == known.address):
		return known, nil
	case err != nil:
		return nil, err
	case address == "":
		return nil, fmt.Errorf("the API server has no schema of %s: %w", kind.APIVersion(), failure.ErrNotFound)
	}
	var document spec3.OpenAPI
	if err := s.get(ctx, mediaTypeJSON, s.rest.Get().RequestURI(address), &document); err != nil {
		return nil, err
	}
	known = newDefinitions(kind, address, &document)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read[at] = known
	return known, nil
}

func newDefinitions(kind object.Kind, address string, document *spec3.OpenAPI) *definitions {
	d := &definitions{address: address, byKind: map[string]*spec.Schema{}}
	if document.Components == nil {
		return d
	}
	d.byName = document.Components.Schemas
	// An aggregated API server may return null for a schema.
	maps.DeleteFunc(d.byName, func(_ string, schema *spec.Schema) bool { return schema == nil })
	for _, schema := range d.byName {
		var kinds []object.Kind
		text, err := json.Marshal(schema.Extensions["x-kubernetes-group-version-kind"])
		if err != nil || json.Unmarshal(text, &kinds) != nil {
			continue
		}
		for _, described := range kinds {
			if described.Group == kind.Group && described.Version == kind.Version {
				d.byKind[described.Kind] = schema
			}
		}
	}
	return d
}
