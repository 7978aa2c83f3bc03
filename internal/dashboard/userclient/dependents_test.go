package userclient_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var replicaSets = object.Kind{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}

const replicaSetsPath = "/apis/apps/v1/namespaces/shop/replicasets"

// owned returns the metadata of an object with owners.
func owned(name string, owners ...string) string {
	refs := lists.Map(owners, func(owner string) string { return fmt.Sprintf(`{"uid":%q}`, owner) })
	return fmt.Sprintf(`{"metadata":{"name":%[1]q,"uid":%[1]q,"namespace":"shop","ownerReferences":[%[2]s]}}`, name, strings.Join(refs, ","))
}

func listed(objects ...string) string { return `{"items":[` + strings.Join(objects, ",") + `]}` }

// tree prints dependents, such as "a(b c)".
func tree(family []userclient.Dependent) string {
	var words []string
	for i := range family {
		word := family[i].Name
		if below := tree(family[i].Dependents); below != "" {
			word += "(" + below + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestDependents(t *testing.T) {
	chain := []string{owned("1", "root")}
	for i := range 20 {
		chain = append(chain, owned(fmt.Sprint(i+2), fmt.Sprint(i+1)))
	}
	for name, test := range map[string]struct {
		objects []string
		want    string
	}{
		"in order":             {[]string{owned("b", "root"), owned("c", "a"), owned("a", "root"), owned("d", "other")}, "a(c) b"},
		"its own owner":        {[]string{owned("a", "root", "a")}, "a"},
		"owners of each other": {[]string{owned("a", "root", "b"), owned("b", "a")}, "a(b)"},
		"the root in a circle": {[]string{owned("root", "a"), owned("a", "root")}, "a"},
		"of two owners":        {[]string{owned("a", "root"), owned("b", "a", "root")}, "a b"},
		"many generations":     {chain, "1(2(3(4(5(6(7(8)))))))"},
	} {
		api := newFakeAPI(t)
		api.update(func() {
			api.responses[replicaSetsPath] = listed(test.objects...)
			api.responses["/api/v1/namespaces/shop/pods"] = listed()
		})
		c := as(t, connect(t, &rest.Config{Host: api.URL}), userclient.User{OwnCredentials: true})
		root := object.Ref{Kind: guitars, Namespace: "shop", Name: "root", UID: "root"}
		found, err := c.Dependents(t.Context(), root, []object.Kind{replicaSets})
		if got := tree(found); err != nil || got != test.want {
			t.Errorf("%s: %s, want %s; %v", name, got, test.want, err)
		}
	}
}

func TestListLimit(t *testing.T) {
	api := newFakeAPI(t)
	page := strings.Repeat(owned("a")+",", 499) + owned("a")
	api.update(func() { api.responses["/api/v1/namespaces"] = `{"metadata":{"continue":"x"},"items":[` + page + `]}` })
	c := as(t, connect(t, &rest.Config{Host: api.URL}), userclient.User{OwnCredentials: true})
	names, err := c.Namespaces(t.Context())
	if err == nil || !strings.Contains(err.Error(), "more than 20000") || len(names) != 20000 {
		t.Errorf("%d are listed: %v", len(names), err)
	}
}
