package hook

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Customizer answers which objects a hook wants to be shown beside a parent and
// its children. The answer may depend on nothing but the request: it is kept
// until what was shown of the parent changes.
//
// Customize obeys the rules of Hook.Call.
type Customizer interface {
	Customize(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error)
}

// CustomizerFunc lets a plain function be a Customizer.
type CustomizerFunc func(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error)

// Customize calls f.
func (f CustomizerFunc) Customize(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error) {
	return f(ctx, req)
}

// CustomizeRequest asks for the objects related to a parent. Its objects are
// read-only.
type CustomizeRequest struct {
	Controller json.RawMessage
	Parent     json.RawMessage
}

// CustomizeResponse names them.
type CustomizeResponse struct {
	Related []RelatedRule
}

// RelatedRule selects objects of one kind: by names in a namespace, or by labels
// in one namespace, in all, or in those whose own labels match. A rule with
// nothing but a kind selects all objects of it.
type RelatedRule struct {
	APIVersion        string                `json:"apiVersion"`
	Resource          string                `json:"resource"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	Namespace         string                `json:"namespace,omitempty"`
	Names             []string              `json:"names,omitempty"`
}
