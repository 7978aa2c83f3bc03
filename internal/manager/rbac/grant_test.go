package rbac

import (
	"os"
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

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

// Every rule has one line, and one above it that says which controllers need it.
func TestManifests(t *testing.T) {
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	secrets := object.Resource{Version: "v1", Plural: "secrets", Namespaced: true}
	all := append(on(maps, "list", "get").to("children").by("b"), on(secrets, "get", "list").to("related objects").by("a")...)
	all = append(all, on(maps, "get").to("parents").by("a")...)
	all = append(all, on(secrets, "get").named("on").in("shop").to("credentials").by("b")...)
	all = append(all, on(secrets, "update").named("on").in("shop").to("credentials").by("b")...)
	roles := Roles("teams", rbac.Subject{Kind: "ServiceAccount", Name: "setpoint", Namespace: "setpoint-system"}, all.RulesByNamespace())
	roles[0].Labels, roles[0].Comments = map[string]string{"a/b": "true"}, []string{"What teams need."}
	roles[1].Subject = rbac.Subject{}
	text := must.Get(YAML(roles)).In(t)
	const want = `# What teams need.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  labels:
    a/b: "true"
  name: teams
rules:
  # a: parents, related objects; b: children
  - {apiGroups: [""], resources: [configmaps, secrets], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: teams
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: teams
subjects:
  - {kind: ServiceAccount, name: setpoint, namespace: setpoint-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: teams
  namespace: shop
rules:
  # b: credentials
  - {apiGroups: [""], resourceNames: ["on"], resources: [secrets], verbs: [get, update]}
`
	compare(t, want, string(text))
	var role rbac.Role
	_, last, _ := strings.Cut(string(text), "kind: Role\n")
	if err := yaml.UnmarshalStrict([]byte(last), &role); err != nil || role.Rules[0].ResourceNames[0] != "on" {
		t.Errorf("read back as %+v, %v", role, err)
	}
}

func TestCommentOfManyControllers(t *testing.T) {
	var all Permissions
	for name := range strings.FieldsSeq("f e d c b a") {
		all = append(all, on(object.Events, "create").to("events").by(name)...)
	}
	if got := all.comment(); got != "a: events; b: events; c: events; d: events; and 2 more" {
		t.Error(got)
	}
}
