package rbac

import (
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// The roles of several controllers: one acts with Setpoint's own rights and writes roles, the
// others as a ServiceAccount of a namespace, and as one in each namespace.
func TestGrantRoles(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Namespaced: true}
	roles := object.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Namespaced: true}
	bindings := object.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "rolebindings", Namespaced: true}
	secret := object.Secrets.Ref("ops", "token")
	process := &Process{Namespace: "setpoint-system"}
	controller := func(name string, account identity.Account, credentials []object.Ref, children ...object.Resource) Controller {
		p := composite.Program{Name: "compositecontroller.setpoint.dev/" + name, Parent: shops, Account: account}
		for _, child := range children {
			p.Children = append(p.Children, plan.Rule{Resource: child})
		}
		return process.Controller(object.Resource{}, &compile.Compiled{Programs: []composite.Program{p}, Account: account, Credentials: credentials})
	}
	g := Grant{
		Name: "apps", Process: identity.Account{Namespace: "setpoint-system", Name: "setpoint"}, Aggregate: true,
		Controllers: []Controller{
			controller("access", identity.Account{}, nil, roles, bindings),
			controller("fixed", identity.Account{Namespace: "ops", Name: "builder"}, []object.Ref{secret}),
			controller("tenants", identity.Account{Name: "tenant"}, nil, bindings),
		},
	}
	text := must.Get(YAML(g.Roles())).In(t)
	want := must.Get(os.ReadFile("testdata/grant.yaml")).In(t)
	compare(t, string(want), string(text))
}
