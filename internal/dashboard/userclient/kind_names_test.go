package userclient

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// Fault G5: a name means the same as in kubectl, but ambiguous names are errors.
func TestMatchKinds(t *testing.T) {
	kind := func(group, version, plural, name string, short ...string) served.Kind {
		return served.Kind{Kind: object.Kind{Group: group, Version: version, Plural: plural, Kind: name}, Singular: strings.ToLower(name), ShortNames: short, Verbs: []string{"get", "list"}}
	}
	review := kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
	review.Verbs = []string{"create"}
	all := []served.Kind{
		kind("", "v1", "pods", "Pod", "po"), kind("", "v1", "events", "Event", "ev"),
		review, kind("events.k8s.io", "v1", "events", "Event", "ev"),
		kind("apps", "v1", "deployments", "Deployment", "deploy"), kind("apps", "v1beta1", "deployments", "Deployment", "deploy"),
		kind("metacontroller.k8s.io", "v1alpha1", "compositecontrollers", "CompositeController", "cc", "cctl"),
		kind("metacontroller.k8s.io", "v1alpha1", "decoratorcontrollers", "DecoratorController", "dec", "decorators"),
		kind("setpoint.dev", "v1alpha1", "compositecontrollers", "CompositeController", "spcc"),
		kind("setpoint.dev", "v1alpha1", "decoratorcontrollers", "DecoratorController", "spdc"),
		kind("setpoint.dev", "v1alpha1", "handlercontrollers", "HandlerController", "sphc"),
		kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
		kind("shop.example.com", "v1", "po", "Po"), kind("other.example.com", "v1", "decorators", "Decorator", "deploy"),
		kind("other.example.com", "v1", "tokenreviews", "TokenReview"),
	}
	const both = "[compositecontrollers.metacontroller.k8s.io compositecontrollers.setpoint.dev]"
	for word, want := range map[string]string{
		"pods": "[pods]", "Pod": "[pods]", "po": "[pods]", "pods.v1.": "[pods]", "events": "[events]",
		"pods.v1": "[]", "pods.": "[]", "pods.metrics.k8s.io": "[pods.metrics.k8s.io]", "PodMetrics": "[pods.metrics.k8s.io]",
		"events.events.k8s.io": "[events.events.k8s.io]", "ev.events": "[events.events.k8s.io]",
		"deployments": "[deployments.apps]", "Deployment.apps": "[deployments.apps]", "deployments.v1beta1.apps": "[deployments.apps]",
		"deploy": "[deployments.apps decorators.other.example.com]", "deploy.apps": "[deployments.apps]",
		"compositecontroller": both, "CompositeControllers": both, "compositecontrollers": both,
		"compositecontroller.setpoint.dev": "[compositecontrollers.setpoint.dev]", "compositecontroller.v1alpha1.metacontroller.k8s.io": "[compositecontrollers.metacontroller.k8s.io]",
		"compositecontroller.set": "[compositecontrollers.setpoint.dev]", "compositecontroller.v1.setpoint.dev": "[]",
		"cc": "[compositecontrollers.metacontroller.k8s.io]", "cc.metacontroller.k8s.io": "[compositecontrollers.metacontroller.k8s.io]",
		"dec": "[decoratorcontrollers.metacontroller.k8s.io]", "dec.setpoint.dev": "[]", "cc.setpoint.dev": "[]", "spcc.metacontroller.k8s.io": "[]",
		"spcc": "[compositecontrollers.setpoint.dev]", "spcc.setpoint.dev": "[compositecontrollers.setpoint.dev]", "SPCC": "[]",
		"decorators": "[decorators.other.example.com]", "decorators.metacontroller.k8s.io": "[decoratorcontrollers.metacontroller.k8s.io]",
		"handlercontroller": "[handlercontrollers.setpoint.dev]", "tokenreviews": "[tokenreviews.other.example.com]",
		"tokenreview.authentication.k8s.io": "[tokenreviews.authentication.k8s.io]",
		"":                                  "[]", ".": "[]", "nonsense": "[]",
	} {
		if got := fmt.Sprint(served.FullNames(matchKinds(all, word))); got != want {
			t.Errorf("%q means %s, want %s", word, got, want)
		}
	}
	if found := matchKinds(all, "deployments.v1beta1.apps"); len(found) != 1 || found[0].Version != "v1beta1" {
		t.Errorf("of another version: %+v", found)
	}
	slices.Reverse(all)
	if found := matchKinds(all, "pods"); len(found) != 1 || found[0].Group != "" {
		t.Errorf("the core group is not meant where it comes last: %+v", found)
	}
}
