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

// customizer returns a hook.Customizer that calls the CustomizeFunc. Served are the
// declared kinds, as the API server serves them.
func (c *Composer[T]) customizer(served []object.Resource) hook.Customizer {
	return hook.CustomizerFunc(func(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		parent, err := decode[T](req.Parent)
		if err != nil {
			return nil, err
		}
		relations, err := c.customize(ctx, parent)
		if err != nil {
			return nil, err
		}
		response := &hook.CustomizeResponse{}
		for _, one := range relations {
			rule, err := c.c.relatedRule(one, served)
			if err != nil {
				return nil, permanentError("Customize: %w", err)
			}
			response.Related = append(response.Related, rule)
		}
		return response, nil
	})
}

// relatedRule converts a RelatedRule to the hook's, which names kinds by their plural.
func (c *controller) relatedRule(r RelatedRule, served []object.Resource) (hook.RelatedRule, error) {
	index := func(k kind) int {
		return slices.IndexFunc(served, func(resource object.Resource) bool { return resource.GroupKind() == k.group() })
	}
	known, err := c.app.kinds()
	if err != nil {
		return hook.RelatedRule{}, err
	}
	k, err := known.of(r.Object)
	if err != nil {
		return hook.RelatedRule{}, err
	}
	i := index(k)
	if i < 0 {
		return hook.RelatedRule{}, fmt.Errorf("declare %s in Customize", k)
	}
	if namespaces := (kind{"v1", "Namespace"}); r.NamespaceLabels != nil && index(namespaces) < 0 {
		return hook.RelatedRule{}, fmt.Errorf("NamespaceLabels: declare %s in Customize", namespaces)
	}
	return hook.RelatedRule{
		APIVersion: served[i].APIVersion(), Resource: served[i].Plural,
		LabelSelector: r.Labels, NamespaceSelector: r.NamespaceLabels, Namespace: r.Namespace, Names: r.Names,
	}, nil
}
