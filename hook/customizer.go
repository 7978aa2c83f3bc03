package hook

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Customizer selects the related objects that a hook receives along with a parent and
// its children. The response must depend on the request alone: Setpoint caches it until
// the parent's visible state changes.
//
// Customize obeys the rules of Hook.Call.
type Customizer interface {
	Customize(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error)
}

// CustomizerFunc adapts a function to a Customizer.
type CustomizerFunc func(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error)

// Customize calls f.
func (f CustomizerFunc) Customize(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error) {
	return f(ctx, req)
}

// CustomizeRequest asks for the rules that select a parent's related objects. Both
// fields are read-only.
type CustomizeRequest struct {
	Controller json.RawMessage
	Parent     json.RawMessage
}

// CustomizeResponse selects related objects. An empty list selects none.
type CustomizeResponse struct {
	Related []RelatedRule `json:"relatedResources"`
}

// RelatedRule selects objects of one kind: by names in a namespace, or by labels in one
// namespace, in all namespaces, or in namespaces with matching labels. A rule with only
// APIVersion and Resource selects all objects of the kind.
type RelatedRule struct {
	APIVersion        string                `json:"apiVersion"`
	Resource          string                `json:"resource"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	Namespace         string                `json:"namespace,omitempty"`
	Names             []string              `json:"names,omitempty"`
}
