package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// schemaCache caches OpenAPI schemas by group and version. They are the same for all users.
type schemaCache struct {
	requester
	group singleflight.Group

	mu        sync.Mutex
	fetchedAt time.Time
	index     map[string]string // URL of each group and version, with a hash
	read      map[string]*definitions
}

// definitions are the schemas of one group and version.
type definitions struct {
	address string
	byName  map[string]*spec.Schema
	byKind  map[string]*spec.Schema
}

func newSchemaCache(r requester) *schemaCache {
	return &schemaCache{requester: r, read: map[string]*definitions{}}
}

// Schema returns the schema of a kind and the definitions that it references, by the names
// after "#/components/schemas/". Both are shared and must not be modified. The error of a kind
// without a schema wraps failure.ErrNotFound.
func (c *Client) Schema(ctx context.Context, kind object.Kind) (*spec.Schema, map[string]*spec.Schema, error) {
	schemas, began := c.cluster.schemas, time.Now()
	found, err := schemas.lookup(ctx, kind)
	// The index may be older than the kind, also that of a shared call, which began before this one.
	for lacks(found, err, kind) && schemas.fetchedBefore(began) {
		if err = schemas.refresh(ctx); err != nil {
			break // An API server without OpenAPI stays without.
		}
		found, err = schemas.lookup(ctx, kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema of %s: %w", describe(kind, "", ""), err)
	}
	schema := found.byKind[kind.Kind]
	if schema == nil {
		return nil, nil, fmt.Errorf("%s has no schema: %w", describe(kind, "", ""), failure.ErrNotFound)
	}
	return schema, found.byName, nil
}

// lacks reports whether a lookup has found that there is no schema.
func lacks(found *definitions, err error, kind object.Kind) bool {
	return errors.Is(err, failure.ErrNotFound) || err == nil && found.byKind[kind.Kind] == nil
}

// lookup returns the definitions of a group and version, from the cache if the hash is the
// same.
func (s *schemaCache) lookup(ctx context.Context, kind object.Kind) (*definitions, error) {
	version := strings.TrimPrefix(kind.Group+"/"+kind.Version, "/")
	at := "apis/" + version
	if kind.Group == "" {
		at = "api/" + version
	}
	var err error
	if !s.fresh() {
		err = s.refresh(ctx)
	}
	address, known := s.cached(at)
	switch {
	// An API server that is unreachable, or that has just started, may not describe custom
	// resources yet.
	case known != nil && (address == "" || address == known.address):
		return known, nil
	case err != nil:
		return nil, err
	case address == "":
		return nil, fmt.Errorf("the API server has no schema of %s: %w", version, failure.ErrNotFound)
	}
	err = shareCall(ctx, &s.group, address, func(ctx context.Context) error { return s.fetch(ctx, kind, at, address) })
	if err != nil {
		return nil, err
	}
	_, known = s.cached(at)
	return known, nil
}

// indexMaxAge is how long the index is cached.
const indexMaxAge = 2 * time.Second

func (s *schemaCache) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index != nil && time.Since(s.fetchedAt) < indexMaxAge
}

func (s *schemaCache) cached(at string) (address string, known *definitions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index[at], s.read[at]
}

// fetchedBefore reports whether the request for the index began before a time.
func (s *schemaCache) fetchedBefore(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetchedAt.Before(t)
}

// refresh fetches the index, or waits for a call that does.
func (s *schemaCache) refresh(ctx context.Context) error {
	return shareCall(ctx, &s.group, "index", s.fetchIndex)
}

// fetchIndex fetches the OpenAPI index.
func (s *schemaCache) fetchIndex(ctx context.Context) error {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	began := time.Now()
	if err := s.get(ctx, mediaTypeJSON, s.rest.Get().AbsPath("/openapi/v3"), &index); err != nil {
		return err
	}
	urls := make(map[string]string, len(index.Paths))
	for path, described := range index.Paths {
		urls[path] = described.ServerRelativeURL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.fetchedAt = urls, began
	return nil
}

// fetch fetches the definitions of a group and version.
func (s *schemaCache) fetch(ctx context.Context, kind object.Kind, at, address string) error {
	var document spec3.OpenAPI
	if err := s.get(ctx, mediaTypeJSON, s.rest.Get().RequestURI(address), &document); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read[at] = newDefinitions(kind, address, &document)
	return nil
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
		for _, described := range schemaKinds(schema) {
			if described.Group == kind.Group && described.Version == kind.Version {
				d.byKind[described.Kind] = schema
			}
		}
	}
	return d
}

// schemaKinds returns the kinds of a schema.
func schemaKinds(schema *spec.Schema) []object.Kind {
	var all []object.Kind
	text, err := json.Marshal(schema.Extensions["x-kubernetes-group-version-kind"])
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}
