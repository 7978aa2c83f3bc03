package setpoint

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CustomizeFunc selects the objects that are related to a parent.
type CustomizeFunc[T any] func(ctx context.Context, parent *T) ([]RelatedRule, error)

// RelatedRule selects objects of one kind: by names in a namespace, or by labels in one
// namespace, in all namespaces, or in namespaces with certain labels. Without any field
// but Object it selects all objects of the kind. In an app that is limited to namespaces,
// it selects in those.
type RelatedRule struct {
	// Object is an object of the kind, such as &corev1.Secret{}.
	Object any
	// Labels select by the labels of the objects, NamespaceLabels by those of their
	// namespaces. NamespaceLabels require that Customize declares the kind Namespace.
	Labels, NamespaceLabels *metav1.LabelSelector
	Namespace               string
	Names                   []string
}

// customizer implements hook.Customizer with a CustomizeFunc.
type customizer[T any] struct {
	composer *Composer[T]
	// served are the declared kinds, as the API server serves them.
	served []object.Resource
}

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

// index returns the index of a kind in served, or a negative number.
func (c *customizer[T]) index(k kind) int {
	return slices.IndexFunc(c.served, func(resource object.Resource) bool { return resource.GroupKind() == k.group() })
}

// rule converts a RelatedRule to the hook's, which names kinds by their plural.
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
		return hook.RelatedRule{}, fmt.Errorf("declare %s in Customize", k)
	}
	if namespaces := (kind{"v1", "Namespace"}); r.NamespaceLabels != nil && c.index(namespaces) < 0 {
		return hook.RelatedRule{}, fmt.Errorf("NamespaceLabels: declare %s in Customize", namespaces)
	}
	return hook.RelatedRule{
		APIVersion: c.served[i].APIVersion(), Resource: c.served[i].Plural,
		LabelSelector: r.Labels, NamespaceSelector: r.NamespaceLabels, Namespace: r.Namespace, Names: r.Names,
	}, nil
}
