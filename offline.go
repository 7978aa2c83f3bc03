package setpoint

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// resource returns a kind as an API server would serve it: exactly for CRDs of the app
// and built-in kinds, by convention for others.
func (k *kinds) resource(wanted kind) object.Resource {
	gvk := schema.FromAPIVersionAndKind(wanted.apiVersion, wanted.kind)
	guess, _ := meta.UnsafeGuessKindToResource(gvk)
	r := object.Resource{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Plural: guess.Resource, Namespaced: true, Status: true,
		Custom: true}
	if o, err := k.scheme.New(gvk); err == nil {
		r.Namespaced, r.Custom = !object.IsClusterScoped(gvk.Kind), false
		_, r.Status = reflect.TypeOf(o).Elem().FieldByName("Status")
		return r
	}
	for _, d := range k.crds {
		if d.Spec.Group == gvk.Group && d.Spec.Names.Kind == gvk.Kind {
			r.Plural, r.Namespaced = d.Spec.Names.Plural, d.Spec.Scope != "Cluster"
			r.Status = slices.ContainsFunc(d.Spec.Versions, func(v crdVersion) bool {
				return v.Name == gvk.Version &&
					v.Subresources.Status != nil
			})
		}
	}
	return r
}

func offlineEnvironment(known *kinds, o Options) compile.Environment {
	return compile.Environment{
		Namespace: o.Namespace, Namespaces: o.Namespaces,
		ResolveKind: func(_ context.Context, apiVersion, name string) (object.Resource, error) {
			return known.resource(kind{apiVersion, name}), nil
		},
	}
}

func (a implementation) CRDs() [][]byte { return slices.Clone(a.crds.texts) }

func (a implementation) Compile(ctx context.Context, env compile.Environment) ([]*compile.Compiled, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	var all []*compile.Compiled
	for _, c := range a.controllers {
		if !c.runs() {
			continue
		}
		one, err := c.logic.compile(ctx, env)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// compileAll returns the controllers as they would be in a cluster.
func (a *App) compileAll(ctx context.Context, o Options) ([]*compile.Compiled, error) {
	known, err := a.kinds()
	if err != nil {
		return nil, err
	}
	return implementation{a}.Compile(ctx, offlineEnvironment(known, o))
}
