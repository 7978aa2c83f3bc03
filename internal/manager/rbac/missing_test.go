package rbac

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The message of the condition can be applied but for its first line. One that is too long names
// the command instead.
func TestMissingPermissions(t *testing.T) {
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	l := refused{
		controller: "compositecontroller.setpoint.dev/shops", command: "setpoint rbac compositecontroller.setpoint.dev/shops",
		user: "system:serviceaccount:setpoint-system:setpoint", account: identity.Account{Namespace: "team", Name: "shops"},
	}
	missing := on(maps, "watch", "list").to("children").by("shops")
	missing = append(missing, on(maps, "create", "delete").to("children").in("team")...)
	missing[2].account, missing[3].account = Identity, Identity
	const want = `Setpoint as system:serviceaccount:setpoint-system:setpoint may not list, watch configmaps.v1; the ServiceAccount team/shops may not create, delete configmaps.v1 in team; the controller starts when this is granted
# To grant it: kubectl apply -f -
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: setpoint-grant-shops
rules:
  - {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: setpoint-grant-shops
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: setpoint-grant-shops
subjects:
  - {kind: ServiceAccount, name: setpoint, namespace: setpoint-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: setpoint-serviceaccount-shops
  namespace: team
rules:
  - {apiGroups: [""], resources: [configmaps], verbs: [create, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: setpoint-serviceaccount-shops
  namespace: team
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: setpoint-serviceaccount-shops
subjects:
  - {kind: ServiceAccount, name: shops, namespace: team}`
	compare(t, want, l.err(missing).Error())
	for i := range 300 {
		missing = append(missing, on(object.Resource{Group: fmt.Sprintf("group%d.example.org", i), Version: "v1", Plural: "widgets"}, "list")...)
	}
	text := l.err(missing).Error()
	if !strings.Contains(text, "; and 251 more") || !strings.HasSuffix(text, "\n# To grant it: setpoint rbac compositecontroller.setpoint.dev/shops | kubectl apply -f -") || len(text) > 32<<10 {
		t.Errorf("%d bytes: …%s", len(text), text[len(text)-200:])
	}
}
