package rbac

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A namespace that does not exist is noted, whatever the rights are, and no Roles are printed for it without
// saying so.
func TestAbsentNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		namespaces []string
		allowed    func(namespace string) bool
		// want starts the error; notes and excluded are what the controller has then.
		want, notes string
		excluded    []string
	}{
		"rights in all":  {[]string{"later", "shop"}, func(string) bool { return true }, "", "later: no such namespace; the controller starts there", nil},
		"rights in some": {[]string{"later", "shop"}, func(namespace string) bool { return namespace == "shop" }, "", "later: no such namespace; the controller starts there", []string{"later"}},
		"no rights": {[]string{"later", "shop"}, func(string) bool { return false }, "Setpoint may not get, list, watch shops.example.org/v1 in shop; the controller starts",
			"later: no such namespace; the controller starts there", []string{"later"}},
		"none exists": {[]string{"later"}, func(string) bool { return false }, "later: no such namespace; create it first; Setpoint may not get, list, watch shops.example.org/v1 in later;",
			"later: no such namespace; the controller starts there", nil},
		"all exist": {[]string{"shop"}, func(string) bool { return true }, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			access := accessOfRights(t, c.allowed)
			shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true}
			compiled := &compile.Compiled{Programs: compile.PerNamespace(composite.Program{Name: "test", Parent: shops}, c.namespaces)}
			err := access.CheckNamespaces(t.Context(), object.Resource{}, compiled)
			if (err != nil) != (c.want != "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if notes := strings.Join(compiled.Notes, " "); (notes != "") != (c.notes != "") || !strings.HasPrefix(notes, c.notes) {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
			if !slices.Equal(compiled.Excluded, c.excluded) {
				t.Errorf("excluded %q, want %q", compiled.Excluded, c.excluded)
			}
		})
	}
}

// accessOfRights returns the access to a cluster that has the namespace shop, with rights in some namespaces.
func accessOfRights(t *testing.T, allowed func(namespace string) bool) *Access {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			if path.Base(r.URL.Path) != "shop" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`)
			return
		}
		var review authorization.SelfSubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review) // What cannot be read is not allowed.
		if of := review.Spec.ResourceAttributes; of != nil {
			review.Status.Allowed = allowed(of.Namespace)
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})).In(t)
	return &Access{Process: &Process{}, Client: client, Accounts: identity.NewReviewer(client)}
}

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
	compare(t, want, l.explain(missing).Error())
	for i := range 300 {
		missing = append(missing, on(object.Resource{Group: fmt.Sprintf("group%d.example.org", i), Version: "v1", Plural: "widgets"}, "list")...)
	}
	text := l.explain(missing).Error()
	if !strings.Contains(text, "; and 251 more") || !strings.HasSuffix(text, "\n# To grant it: setpoint rbac compositecontroller.setpoint.dev/shops | kubectl apply -f -") || len(text) > 32<<10 {
		t.Errorf("%d bytes: …%s", len(text), text[len(text)-200:])
	}
}
