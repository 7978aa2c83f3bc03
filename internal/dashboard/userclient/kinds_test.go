package userclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// discoveryTransport responds to discovery without a network, as synctest requires: with guitars
// from the time they are served.
type discoveryTransport struct {
	served   atomic.Bool
	requests atomic.Int32
	// takes is how long a response takes.
	takes time.Duration
}

func (d *discoveryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(d.takes)
	group, plural, kind := "", "pods", "Pod"
	if r.URL.Path == "/apis" {
		d.requests.Add(1)
		if d.served.Load() {
			group, plural, kind = "kool.example.org", "guitars", "Guitar"
		}
	}
	body := fmt.Sprintf(`{"items":[{"metadata":{"name":%q},"versions":[{"version":"v1","resources":[`+
		`{"resource":%q,"responseKind":{"kind":%q},"scope":"Namespaced","verbs":["get","list"]}]}]}]}`, group, plural, kind)
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}

func discoveryClient(t *testing.T) (*discoveryTransport, *userclient.Client) {
	transport := &discoveryTransport{}
	return transport, as(t, connect(t, &rest.Config{Host: "http://127.0.0.1:1", Transport: transport}), userclient.User{OwnCredentials: true})
}

// A page opened right after the CRD finds its kind, although discovery was read just before it.
func TestKindServedSinceDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, client := discoveryClient(t)
		if _, err := client.FindCurrentKind(t.Context(), "guitars"); !errors.Is(err, failure.ErrNotFound) {
			t.Fatalf("before the CRD: %v", err)
		}
		<-time.After(time.Second)
		transport.served.Store(true)
		if kind, err := client.FindCurrentKind(t.Context(), "guitars.kool.example.org"); err != nil || kind != guitars {
			t.Errorf("after the CRD: %v, %v", kind, err)
		}
	})
}

// discovered returns the discovery document of a group.
func discovered(group, version string, resources ...string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"versions":[{"version":%q,"resources":[%s]}]}`, group, version, strings.Join(resources, ","))
}

func resource(plural, scope string, verbs ...string) string {
	return fmt.Sprintf(`{"resource":%[1]q,"responseKind":{"kind":%[1]q},"scope":%[2]q,"verbs":["%[3]s"]}`, plural, scope, strings.Join(verbs, `","`))
}

func TestContents(t *testing.T) {
	f := newFakeAPI(t)
	f.responses["/api"] = `{"items":[` + discovered("", "v1",
		resource("pods", "Namespaced", "list", "delete"), resource("events", "Namespaced", "list", "delete"),
		resource("nodes", "Cluster", "list", "delete"), resource("bindings", "Namespaced", "create"),
		resource("configmaps", "Namespaced", "list", "delete"), resource("secrets", "Namespaced", "list", "delete"),
		resource("gone", "Namespaced", "list", "delete")) + `]}`
	f.responses["/apis"] = `{"items":[` +
		discovered("events.k8s.io", "v1", resource("events", "Namespaced", "list", "delete")) + "," +
		discovered("metrics.k8s.io", "v1", resource("pods", "Namespaced", "list")) + `]}`
	one := `"items":[{"metadata":{"name":"a"}}]`
	f.responses["/api/v1/namespaces/shop/pods"] = `{"metadata":{"continue":"x","remainingItemCount":41},` + one + `}`
	f.responses["/api/v1/namespaces/shop/events"] = `{"metadata":{"continue":"x"},` + one + `}`
	f.responses["/api/v1/namespaces/shop/configmaps"] = `{"items":[]}`
	f.responses["/api/v1/namespaces/shop/secrets"] = `no answer of an API server`
	client := as(t, connect(t, &rest.Config{Host: f.URL}), userclient.User{OwnCredentials: true})
	counts := must.Get(client.Contents(t.Context(), "shop")).In(t)
	var got []string
	for _, tally := range counts {
		got = append(got, fmt.Sprintf("%s %d more=%v failed=%v", tally.Plural, tally.Count, tally.More, tally.Err != nil))
	}
	want := []string{"pods 42 more=false failed=false", "events 1 more=true failed=false", "secrets 0 more=false failed=true"}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("got  %q\n\twant %q", got, want)
	}
	for _, requests := range f.log {
		for _, not := range []string{"nodes", "bindings", "metrics.k8s.io/v1", "events.k8s.io/v1"} {
			if strings.Contains(requests, not) {
				t.Errorf("request %s", requests)
			}
		}
	}
}

func TestListLimit(t *testing.T) {
	api := newFakeAPI(t)
	page := strings.Repeat(`{"metadata":{"name":"a"}},`, 499) + `{"metadata":{"name":"a"}}`
	api.update(func() { api.responses["/api/v1/namespaces"] = `{"metadata":{"continue":"x"},"items":[` + page + `]}` })
	c := as(t, connect(t, &rest.Config{Host: api.URL}), userclient.User{OwnCredentials: true})
	names, err := c.Namespaces(t.Context())
	if err == nil || !strings.Contains(err.Error(), "more than 20000") || len(names) != 20000 {
		t.Errorf("%d are listed: %v", len(names), err)
	}
}
