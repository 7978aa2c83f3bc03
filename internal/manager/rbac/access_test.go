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
