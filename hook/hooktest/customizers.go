package hooktest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// CustomizerOpener is an Opener for customizers.
type CustomizerOpener func(t *testing.T, logic hook.Customizer) hook.Customizer

// RunCustomizer runs the customizer suite.
func RunCustomizer(t *testing.T, open CustomizerOpener) {
	selector := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"example.com/a": "", "b": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}},
	}
	suite[hook.CustomizeRequest, hook.CustomizeResponse]{
		open: func(t *testing.T, logic call[hook.CustomizeRequest, hook.CustomizeResponse]) call[hook.CustomizeRequest,
			hook.CustomizeResponse] {
			return open(t, hook.CustomizerFunc(logic)).Customize
		},
		newRequest: func(name string) *hook.CustomizeRequest {
			q := newRequest(name)
			return &hook.CustomizeRequest{Controller: q.Controller, Parent: q.Parent}
		},
		responses: map[string]hook.CustomizeResponse{
			"none":       {},
			"everything": {Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "nodes"}}},
			"in the hook's order": {Related: []hook.RelatedRule{
				{APIVersion: "v1", Resource: "secrets", Namespace: "away", Names: []string{"b", "a"}},
				{APIVersion: "apps/v1", Resource: "deployments", LabelSelector: selector},
				{APIVersion: "v1", Resource: "configmaps", LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: selector},
			}},
		},
		echo: func(request *hook.CustomizeRequest) *hook.CustomizeResponse {
			name := parentName(&hook.Request{Parent: request.Parent})
			return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "secrets", Names: []string{name}}}}
		},
	}.run(t)
}
