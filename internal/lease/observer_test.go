package lease

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestObserver(t *testing.T) {
	lease := `{"spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 10}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if lease == "" || r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/ops/leases/setpoint" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
			return
		}
		_, _ = fmt.Fprint(w, lease)
	}))
	defer server.Close()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(t)
	fake := clocktesting.NewFakeClock(time.Now())
	o := NewObserver(client, fake)
	expect := func(when string, want State) {
		t.Helper()
		got, err := o.Observe(t.Context(), types.NamespacedName{Namespace: "ops", Name: "setpoint"})
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
		}
	}
	// Its renewal is long ago by the clock of its holder, which may be wrong.
	expect("at first", State{Holder: "a"})
	fake.Step(10 * time.Second)
	expect("within its duration", State{Holder: "a"})
	lease = `{"spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:05.000000Z", "leaseDurationSeconds": 10}}`
	fake.Step(time.Second)
	expect("renewed", State{Holder: "a"})
	fake.Step(11 * time.Second)
	expect("not renewed", State{Holder: "a", Expired: true})
	lease = `{"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}`
	expect("released", State{})
	lease = `{"spec": {"holderIdentity": "b"}}`
	expect("without a duration", State{Holder: "b"})
	fake.Step(time.Hour)
	expect("an hour later", State{Holder: "b"})
	lease = ""
	if _, err := o.Observe(t.Context(), types.NamespacedName{Namespace: "ops", Name: "setpoint"}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v", err)
	}
}
