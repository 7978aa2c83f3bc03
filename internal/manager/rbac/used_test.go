package rbac

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Requests are counted by what the API server reviews.
func TestCountedRequests(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPatch && r.URL.Path == "/base/apis/apps/v1/namespaces/a/deployments/new":
			w.WriteHeader(http.StatusCreated)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer s.Close()
	counted := NewRequests(time.Now())
	client := must.Get(rest.HTTPClientFor(counted.Config(&rest.Config{Host: s.URL}))).In(t)
	const account = "system:serviceaccount:team:builder"
	for _, one := range []struct{ method, path, as string }{
		{"GET", "/apis/apps/v1", ""},
		{"GET", "/base/api/v1/pods", ""},
		{"GET", "/api/v1/pods?watch=true", ""},
		{"GET", "/api/v1/namespaces/a", ""},
		{"GET", "/api/v1/namespaces/a/secrets/x", ""},
		{"PUT", "/apis/example.org/v1/namespaces/a/shops/x/status", ""},
		{"DELETE", "/api/v1/namespaces/a/secrets/x", ""},
		{"PATCH", "/base/apis/apps/v1/namespaces/a/deployments/new", account},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), one.method, s.URL+one.path, http.NoBody)).In(t)
		if one.as != "" {
			request.Header.Set("Impersonate-User", one.as)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	got := ""
	for _, r := range counted.Snapshot().Requests {
		got += r.User + "|" + r.Verb + " " + resourceName(r.Group, r.Resource) + " in " + r.Namespace + "\n"
	}
	const want = `|get namespaces in 
|list pods in 
|watch pods in 
|get secrets in a
|impersonate serviceaccounts in team
|impersonate-on:serviceaccount:create deployments.apps in a
|impersonate-on:serviceaccount:patch deployments.apps in a
|impersonate:serviceaccount serviceaccounts.authentication.k8s.io in team
|update shops.example.org/status in a
system:serviceaccount:team:builder|create deployments.apps in a
system:serviceaccount:team:builder|patch deployments.apps in a
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The memory for counts is bounded: beyond it, requests are counted without their namespaces.
func TestCountsAreBounded(t *testing.T) {
	r := NewRequests(time.Now())
	for i := range 3 * maxRequests {
		r.add(requestKey{verb: "get", resource: "pods", namespace: string(rune('a'+i%26)) + time.Duration(i).String()}, time.Now())
	}
	if all := r.Snapshot().Requests; len(all) != maxRequests+1 || all[0].Namespace != inspect.ManyNamespaces {
		t.Errorf("%d, %+v", len(all), all[0])
	}
}

// What an identity may read is reviewed for hooks, and never requested as the identity.
func TestReadsOfIdentitiesAreKept(t *testing.T) {
	g := Granted{Kind: "ClusterRole", Name: "builder", ReadsReviewed: true, Rules: []rbac.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create"}},
	}}
	roles := WithoutUnused([]Granted{g}, nil)
	if len(roles) != 1 || rulesText(roles[0].Rules) != "- configmaps: get list" {
		t.Errorf("got %+v", roles)
	}
	if all := Used([]Granted{g}, nil); !all[0].Reviewed || all[2].Reviewed {
		t.Errorf("got %+v", all)
	}
}

// Roles keep the verbs that were used; wildcards become what was used of them.
func TestUsed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	granted := []Granted{
		{Kind: "ClusterRole", Name: "colours", Labels: map[string]string{AggregateLabel: "true"}, Rules: []rbac.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "create"}},
			{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"list", "watch", "delete"}},
		}},
		{Kind: "Role", Name: "own", Namespace: "ops", Rules: []rbac.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"token"}, Verbs: []string{"get", "update"}},
		}},
		{Kind: "Role", Name: "unused", Namespace: "ops", Rules: []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}},
	}
	requests := []inspect.Request{
		{Verb: "create", Resource: "configmaps", Namespace: "a", Last: now},
		{Verb: "create", Resource: "configmaps", Namespace: "b", Last: now.Add(time.Hour)},
		{Verb: "patch", Group: "apps", Resource: "deployments/status", Namespace: "a", Last: now},
		{Verb: "get", Resource: "secrets", Namespace: "ops", Last: now},
		{Verb: "update", Resource: "secrets", Namespace: "other", Last: now},
		{Verb: "watch", Group: "batch", Resource: "jobs", Namespace: inspect.ManyNamespaces, Last: now},
	}
	text := ""
	for _, one := range Used(granted, requests) {
		last := "never"
		if !one.Last.IsZero() {
			last = one.Last.Format(time.TimeOnly)
		}
		text += one.Role + " " + one.Namespace + ": " + one.Verb + " " + one.Resource + " " + last + "\n"
	}
	const want = `colours : * *.apps 00:00:00
colours : get configmaps never
colours : create configmaps 01:00:00
colours : list jobs.batch 00:00:00
colours : watch jobs.batch 00:00:00
colours : delete jobs.batch never
colours : get secrets 00:00:00
colours : create secrets never
own ops: get secrets 00:00:00
own ops: update secrets never
unused ops: list pods never
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rules := ""
	for _, role := range WithoutUnused(granted, requests) {
		rules += role.Name + " in " + role.Namespace + " " + role.Labels[AggregateLabel] + "\n" + rulesText(role.Rules) + "\n"
	}
	const left = `colours in  true
- configmaps: create
- secrets: get
apps deployments/status: patch
batch jobs: list watch
own in ops 
- secrets: get of token
`
	if rules != left {
		t.Errorf("got %s", rules)
	}
}
