package setpoint

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// RelateFunc says which objects are related to a parent.
type RelateFunc[T any] func(ctx context.Context, parent *T) ([]Relation, error)

// Relation selects objects of one kind: by names in a namespace, or by labels in
// one namespace, in all, or in those whose own labels match. With nothing but a
// kind it selects all objects of it.
type Relation struct {
	// Like is an object that stands for the kind, such as &corev1.Secret{}.
	Like any
	// Labels are those that the objects have, NamespaceLabels those that their
	// namespaces have.
	Labels, NamespaceLabels *metav1.LabelSelector
	Namespace               string
	Names                   []string
}

// customizer is a RelateFunc as the engine asks it.
type customizer[T any] struct {
	of  *Composer[T]
	env compile.Environment

	mu    sync.Mutex
	found map[kind]object.Resource
}

// Customize asks the function.
func (c *customizer[T]) Customize(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	parent, err := decode[T](req.Parent)
	if err != nil {
		return nil, err
	}
	relations, err := c.of.relate(ctx, parent)
	if err != nil {
		return nil, err
	}
	response := &hook.CustomizeResponse{}
	for _, one := range relations {
		rule, err := c.rule(ctx, one)
		if err != nil {
			return nil, err
		}
		response.Related = append(response.Related, rule)
	}
	return response, nil
}

// rule is a relation as the engine takes it: it knows kinds by their plurals.
func (c *customizer[T]) rule(ctx context.Context, r Relation) (hook.RelatedRule, error) {
	known, err := c.of.c.app.kinds()
	if err != nil {
		return hook.RelatedRule{}, err
	}
	k, err := known.of(r.Like)
	if err != nil {
		return hook.RelatedRule{}, permanently("Customize: %w", err)
	}
	resource, err := c.resolve(ctx, k)
	if err != nil {
		return hook.RelatedRule{}, fmt.Errorf("Customize: %w", err)
	}
	return hook.RelatedRule{
		APIVersion: k.apiVersion, Resource: resource.Plural,
		LabelSelector: r.Labels, NamespaceSelector: r.NamespaceLabels, Namespace: r.Namespace, Names: r.Names,
	}, nil
}

// resolve asks the API server once about a kind.
func (c *customizer[T]) resolve(ctx context.Context, k kind) (object.Resource, error) {
	c.mu.Lock()
	resource, known := c.found[k]
	c.mu.Unlock()
	if known {
		return resource, nil
	}
	resource, err := resolve(ctx, c.env, k)
	if err != nil {
		return resource, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[k] = resource
	return resource, nil
}
