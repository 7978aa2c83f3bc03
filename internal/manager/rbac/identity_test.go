package rbac

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// A process needs to fill the cache and to act as the identity; the identity needs the rest.
func TestIdentityPermissions(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Namespaced: true, Status: true}
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	controllers := object.Resource{Group: "setpoint.dev", Version: "v1", Plural: "controllers"}
	for name, c := range map[string]struct {
		compiled    *compile.Compiled
		account     identity.Account
		constrained bool
		want        string
	}{
		"of one namespace": {
			compiled: &compile.Compiled{Programs: []composite.Program{{Parent: shops, Children: plan.Rules{{Resource: maps, Method: plan.InPlace}}}}},
			account:  identity.Account{Namespace: "team", Name: "shops"},
			want: `own in ""
- configmaps: list watch
authorization.k8s.io subjectaccessreviews: create
example.org shops: list watch
own in "team"
- serviceaccounts: get impersonate of shops
identity in ""
- configmaps: get list create update delete
example.org shops: get list
example.org shops/status: update
`,
		},
		"of each parent's namespace, and a finalizer of the controller": {
			compiled: &compile.Compiled{Programs: []composite.Program{{Parent: shops, Finalize: hook.Func(nil)}}},
			account:  identity.Account{Name: "shops"},
			want: `own in ""
- serviceaccounts: get impersonate of shops
authorization.k8s.io subjectaccessreviews: create
example.org shops: list watch
setpoint.dev controllers: patch
identity in ""
example.org shops: get list update patch
example.org shops/status: update
`,
		},
		// The process registers webhooks, but only for an identity that could do so itself.
		"webhooks": {
			compiled: &compile.Compiled{Admission: &admission.Program{}},
			account:  identity.Account{Namespace: "team", Name: "shops"},
			want: `own in ""
admissionregistration.k8s.io mutatingwebhookconfigurations,validatingwebhookconfigurations: get list watch create update delete
authorization.k8s.io subjectaccessreviews: create
coordination.k8s.io leases: create
own in "team"
- serviceaccounts: get impersonate of shops
identity in ""
admissionregistration.k8s.io mutatingwebhookconfigurations,validatingwebhookconfigurations: create update delete
`,
		},
		// What a handler may delete is listed once, as the identity, and not watched.
		"handlers, constrained": {
			compiled: &compile.Compiled{Handlers: []handler.Program{{
				Rules:  trigger.Rules{Resource: maps, Handlers: []trigger.Handler{{}}},
				Writes: []permit.Write{{Resource: shops, Delete: true, Namespace: "b"}},
			}}},
			account:     identity.Account{Namespace: "team", Name: "shops"},
			constrained: true,
			want: `own in ""
- configmaps: list watch impersonate-on:serviceaccount:get impersonate-on:serviceaccount:list impersonate-on:serviceaccount:patch
authorization.k8s.io subjectaccessreviews: create
own in "b"
example.org shops: impersonate-on:serviceaccount:delete impersonate-on:serviceaccount:get impersonate-on:serviceaccount:list
own in "team"
- serviceaccounts: get of shops
authentication.k8s.io serviceaccounts: impersonate:serviceaccount of shops
identity in ""
- configmaps: get list patch
identity in "b"
example.org shops: get list delete
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.compiled.Account = c.account
			all := (&Process{}).forController(controllers, c.compiled)
			got := describeRules("own", append(all.Of(Own), all.Impersonation(c.account, c.constrained)...)) + describeRules("identity", all.Of(Identity))
			compare(t, c.want, got)
		})
	}
}

func describeRules(of string, all Permissions) string {
	text := ""
	for _, g := range all.RulesByNamespace() {
		text += fmt.Sprintf("%s in %q\n%s\n", of, g.Namespace, rulesText(g.Rules))
	}
	return text
}
