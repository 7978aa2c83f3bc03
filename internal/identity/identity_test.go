package identity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		user, problem string
	}{
		"":          {},
		"web/bot":   {user: "system:serviceaccount:web:bot"},
		"bot":       {user: "system:serviceaccount:shop:bot"},
		"/bot":      {problem: `"/bot" has an empty namespace`},
		"web/":      {problem: `"" is not the name of a ServiceAccount`},
		"web/a/b":   {problem: `"a/b" is not the name of a ServiceAccount`},
		"Web/bot":   {problem: `"Web" is not the name of a namespace`},
		"web:x/bot": {problem: `"web:x" is not the name of a namespace`},
	} {
		account, err := identity.Parse(text)
		switch {
		case want.problem != "":
			if err == nil || !strings.HasPrefix(err.Error(), want.problem) {
				t.Errorf("Parse(%q): %v, want %s", text, err, want.problem)
			}
		case err != nil:
			t.Errorf("Parse(%q): %v", text, err)
		case account.UserFor("shop") != want.user || account.String() != text || account.IsZero() != (text == ""):
			t.Errorf("Parse(%q) = %#v, a user %s; want %s", text, account, account.UserFor("shop"), want.user)
		}
	}
}

var (
	pods  = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	nodes = object.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}
)

const bot = "system:serviceaccount:web:bot"

// authorizer is an API server with rules, such as "list pods in web", and the ServiceAccount web/bot.
type authorizer struct {
	mu       sync.Mutex
	rules    []string
	missing  bool
	requests []string
}

func (a *authorizer) set(missing bool, rules ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing, a.rules, a.requests = missing, rules, nil
}

func (a *authorizer) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

func (a *authorizer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodGet {
		a.requests = append(a.requests, r.URL.Path)
		if a.missing {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
		return w.Result(), nil
	}
	var review authorization.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	of := review.Spec.ResourceAttributes
	text := of.Verb + " " + of.Resource
	if of.Namespace != "" {
		text += " in " + of.Namespace
	}
	if of.Name != "" {
		text += " named " + of.Name
	}
	a.requests = append(a.requests, text)
	review.Status.Allowed = review.Spec.User == bot && slices.Contains(a.rules, text) &&
		slices.Equal(review.Spec.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:web", "system:authenticated"})
	err := json.NewEncoder(w).Encode(review)
	return w.Result(), err
}

func reviewer(t *testing.T, at *authorizer) *identity.Reviewer {
	t.Helper()
	client := must.Get(rest.UnversionedRESTClientForConfigAndClient(&rest.Config{Host: "http://api", QPS: -1, ContentConfig: rest.ContentConfig{
		NegotiatedSerializer: serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()}}, &http.Client{Transport: at})).In(t)
	return identity.NewReviewer(client)
}

func TestCheckRead(t *testing.T) {
	for name, c := range map[string]struct {
		user, rule string
		resource   object.Resource
		namespace  string
		missing    bool
		want       string
	}{
		"Setpoint itself":         {"", "", pods, "web", true, ""},
		"everywhere":              {bot, "list pods", pods, "web", false, ""},
		"in the namespace":        {bot, "list pods in web", pods, "web", false, ""},
		"by name":                 {bot, "get pods in web named a", pods, "web", false, ""},
		"in another namespace":    {bot, "list pods in web", pods, "shop", false, `reading pods.v1 in the namespace "shop" is forbidden for the ServiceAccount web/bot`},
		"cluster-scoped":          {bot, "list nodes", nodes, "", false, ""},
		"cluster-scoped, by name": {bot, "get nodes named a", nodes, "", false, ""},
		"not cluster-scoped":      {bot, "list pods", nodes, "", false, "reading nodes.v1 of the cluster is forbidden for the ServiceAccount web/bot"},
		"another user":            {"system:serviceaccount:shop:bot", "list pods", pods, "web", false, `reading pods.v1 in the namespace "web" is forbidden for the ServiceAccount shop/bot`},
		"deleted ServiceAccount":  {bot, "list pods", pods, "web", true, "forbidden: the ServiceAccount web/bot does not exist; create it: kubectl -n web create serviceaccount bot"},
		"deleted, get by name":    {bot, "get pods in web named a", pods, "web", true, "forbidden: the ServiceAccount web/bot does not exist; create it: kubectl -n web create serviceaccount bot"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &authorizer{rules: []string{c.rule}, missing: c.missing}
			err := reviewer(t, server).CheckRead(t.Context(), c.user, c.resource, c.namespace, "a")
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, identity.ErrForbidden) || err.Error() != c.want) {
				t.Errorf("%v, want %q, after %q", err, c.want, server.requests)
			}
		})
	}
}

func TestDecisionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &authorizer{rules: []string{"list pods in web"}}
		r := reviewer(t, server)
		check := func() error { return r.CheckRead(t.Context(), bot, pods, "web", "a") }
		must.Succeed(t, check())
		server.set(true)
		if err := check(); err != nil || server.count() > 0 {
			t.Fatalf("not cached: %v, %d requests", err, server.count())
		}
		<-time.After(identity.AllowedTTL + time.Second)
		if err := check(); !errors.Is(err, identity.ErrForbidden) {
			t.Fatalf("%v although the ServiceAccount is gone", err)
		}
		server.set(false, "list pods")
		<-time.After(identity.DeniedTTL + time.Second)
		if err := check(); err != nil {
			t.Fatalf("%v although it is back", err)
		}
	})
}

// TestOneRequestForAll checks that many runs at once cost one request for each decision.
func TestOneRequestForAll(t *testing.T) {
	server := &authorizer{rules: []string{"list pods"}}
	r := reviewer(t, server)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := r.CheckRead(t.Context(), bot, pods, "web", "a"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := server.count(); got != 2 {
		t.Errorf("%d requests: %q", got, server.requests)
	}
}
