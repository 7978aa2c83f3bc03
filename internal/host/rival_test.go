package host

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

func TestWhoCompetes(t *testing.T) {
	parent := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	by := func(text string) []engine.Selection {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []engine.Selection{{Labels: selector}}
	}
	for name, c := range map[string]struct {
		a, b engine.Program
		want bool
	}{
		"all and all":         {engine.Program{}, engine.Program{}, true},
		"all and some":        {engine.Program{}, engine.Program{Selections: by("a=1")}, true},
		"the same":            {engine.Program{Selections: by("a=1")}, engine.Program{Selections: by("a=1")}, true},
		"labels apart":        {engine.Program{Selections: by("a=1")}, engine.Program{Selections: by("a=2")}, false},
		"fields apart":        {engine.Program{Fields: "metadata.name=a"}, engine.Program{Fields: "metadata.name=b"}, false},
		"all and some fields": {engine.Program{}, engine.Program{Fields: "metadata.name=b"}, true},
		"a namespace apart":   {engine.Program{Namespace: "a"}, engine.Program{Namespace: "b"}, false},
		"the same namespace":  {engine.Program{Namespace: "a"}, engine.Program{Namespace: "a"}, true},
		"one and everywhere":  {engine.Program{Namespace: "a"}, engine.Program{}, true},
		"a decorator":         {engine.Program{}, engine.Program{Mark: plan.Mark{Key: "a", Value: "b"}}, false},
	} {
		c.a.Parent, c.b.Parent = parent, parent
		if compete(&c.a, &c.b) != c.want || compete(&c.b, &c.a) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}
