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
		if _, err := client.CurrentKind(t.Context(), "guitars"); !errors.Is(err, failure.ErrNotFound) {
			t.Fatalf("before the CRD: %v", err)
		}
		<-time.After(time.Second)
		transport.served.Store(true)
		if kind, err := client.CurrentKind(t.Context(), "guitars.kool.example.org"); err != nil || kind != guitars {
			t.Errorf("after the CRD: %v, %v", kind, err)
		}
	})
}
