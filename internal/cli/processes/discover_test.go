package processes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// leaseTransport is an API server with one Lease that leads nowhere.
type leaseTransport struct{ lists atomic.Int32 }

func (l *leaseTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l.lists.Add(1)
	const list = `{"apiVersion":"coordination.k8s.io/v1","kind":"LeaseList","items":[{"metadata":{"name":"odd","namespace":"shop","annotations":{"setpoint.dev/inspect":"other/pod:1"}}}]}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(list)), Request: r,
	}, nil
}

// brokenProcess is a process that cannot be reached any more.
type brokenProcess struct{ *clitest.FakeProcess }

func (brokenProcess) Await(context.Context, uint64) (uint64, error) {
	return 0, errors.New("connection refused")
}

// What fails is tried again soon, but the Leases of a cluster are listed less often.
func TestFailingProcessListsFewLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		server := &leaseTransport{}
		r := &Session{
			Invocation: &command.Invocation{Stderr: &stderr}, ReadFlags: &ReadFlags{Watch: true},
			Target:  manager.Cluster{Config: &rest.Config{Host: "http://cluster", Transport: server}},
			Sources: []inspect.Source{brokenProcess{clitest.NewFakeProcess("a")}}, Timeouts: inspect.NewTimeouts(time.Second),
		}
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		looks := 0
		err := r.watch(ctx, func(context.Context) error {
			looks++
			return nil
		})
		if err != nil || looks != 0 {
			t.Errorf("%v after %d looks, without news", err, looks)
		}
		if got := server.lists.Load(); got != 3 {
			t.Errorf("listed the Leases %d times in 25 s, want at once and each 10 s", got)
		}
		for _, said := range []string{"ignored Lease shop/odd", errNoProcessFound.Error()} {
			if strings.Count(stderr.String(), said) != 1 {
				t.Errorf("said %q, want once %q", stderr.String(), said)
			}
		}
	})
}
