package setpoint

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CustomizeFunc says which objects are related to a parent.
type CustomizeFunc[T any] func(ctx context.Context, parent *T) ([]RelatedRule, error)

// RelatedRule selects objects of one kind: by names in a namespace, or by labels in
// one namespace, in all, or in those whose own labels match. With nothing but a
// kind it selects all objects of it. Where a run is limited to namespaces, it selects
// in those.
type RelatedRule struct {
	// Object is an object that stands for the kind, such as &corev1.Secret{}.
	Object any
	// Labels are those that the objects have, NamespaceLabels those that their
	// namespaces have: for that, Namespaces are looked at, and their kind declared.
	Labels, NamespaceLabels *metav1.LabelSelector
	Namespace               string
	Names                   []string
}

// customizer is a CustomizeFunc as the engine asks it.
type customizer[T any] struct {
	composer *Composer[T]
	// served are the kinds that it may name, as the API server serves them.
	served []object.Resource
}

// Customize asks the function.
func (c *customizer[T]) Customize(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	parent, err := decode[T](req.Parent)
	if err != nil {
		return nil, err
	}
	relations, err := c.composer.customize(ctx, parent)
	if err != nil {
		return nil, err
	}
	response := &hook.CustomizeResponse{}
	for _, one := range relations {
		rule, err := c.rule(one)
		if err != nil {
			return nil, permanentError("Customize: %w", err)
		}
		response.Related = append(response.Related, rule)
	}
	return response, nil
}

// index is where a kind is among those served; less than 0 if it is not.
func (c *customizer[T]) index(k kind) int {
	return slices.IndexFunc(c.served, func(resource object.Resource) bool { return resource.GroupKind() == k.group() })
}

// rule is a relation as the engine takes it: it knows kinds by their plurals.
func (c *customizer[T]) rule(r RelatedRule) (hook.RelatedRule, error) {
	known, err := c.composer.c.app.kinds()
	if err != nil {
		return hook.RelatedRule{}, err
	}
	k, err := known.of(r.Object)
	if err != nil {
		return hook.RelatedRule{}, err
	}
	i := c.index(k)
	if i < 0 {
		return hook.RelatedRule{}, fmt.Errorf("%s is not declared: name it where you say Customize", k)
	}
	if namespaces := (kind{"v1", "Namespace"}); r.NamespaceLabels != nil && c.index(namespaces) < 0 {
		return hook.RelatedRule{}, fmt.Errorf("NamespaceLabels: %s is not declared: name it where you say Customize", namespaces)
	}
	return hook.RelatedRule{
		APIVersion: c.served[i].APIVersion(), Resource: c.served[i].Plural,
		LabelSelector: r.Labels, NamespaceSelector: r.NamespaceLabels, Namespace: r.Namespace, Names: r.Names,
	}, nil
}
