package compile

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestExclude(t *testing.T) {
	spaced, cluster := object.Resource{Kind: "Shop", Namespaced: true}, object.Resource{Kind: "Town"}
	limited := func(names ...string) *Compiled {
		programs := PerNamespace(composite.Program{Parent: spaced}, names)
		return &Compiled{
			Programs: append(programs, composite.Program{Parent: cluster, Namespaces: names}),
			Handlers: []handler.Program{{Namespaces: names}},
		}
	}
	for name, c := range map[string]struct {
		of             *Compiled
		excluded, left []string
	}{
		"one of three":    {limited("a", "b", "c"), []string{"b"}, []string{"a", "c"}},
		"all":             {limited("a", "b"), []string{"a", "b"}, nil},
		"another":         {limited("a", "b"), []string{"home"}, nil},
		"one and another": {limited("a", "b"), []string{"a", "home"}, nil},
		"of no limit":     {limited(), []string{"a"}, nil},
	} {
		before := len(c.of.Programs)
		if left := c.of.Exclude(c.excluded); !slices.Equal(left, c.left) {
			t.Errorf("%s: left %v", name, left)
		}
		if c.left == nil {
			if len(c.of.Programs) != before || c.of.Excluded != nil {
				t.Errorf("%s: changed to %+v", name, c.of)
			}
			continue
		}
		var in []string
		for _, p := range c.of.Programs {
			in = append(in, p.Namespace)
			if !slices.Equal(p.Namespaces, c.left) {
				t.Errorf("%s: program %q limited to %v", name, p.Namespace, p.Namespaces)
			}
		}
		if !slices.Equal(in, append(c.left, "")) || !slices.Equal(c.of.Handlers[0].Namespaces, c.left) || !slices.Equal(c.of.Excluded, c.excluded) {
			t.Errorf("%s: programs in %v, handlers in %v, excluded %v", name, in, c.of.Handlers[0].Namespaces, c.of.Excluded)
		}
	}
}

// The namespaces of the parents do not limit what a customize hook selects.
func TestRelatedObjectsAreLimitedByTheProcessOnly(t *testing.T) {
	manifest := []byte(`{apiVersion: setpoint.dev/v1alpha1, kind: CompositeController, metadata: {name: shops}, spec: {
		parentResource: {apiVersion: example.org/v1, resource: shops, namespaces: [a]}, hooks: {
		sync: {webhook: {url: "http://hook"}}, customize: {webhook: {url: "http://hook"}}}}}`)
	for _, process := range [][]string{nil, {"a", "b"}} {
		_, _, c, err := compileText(t, manifest, process...)
		must.Succeed(t, err)
		p := c.Programs[0]
		if len(c.Programs) != 1 || p.Namespace != "a" || !slices.Equal(p.Scope.Namespaces, process) {
			t.Errorf("with --namespaces=%v: parents in %q, related objects in %v", process, p.Namespace, p.Scope.Namespaces)
		}
	}
}
