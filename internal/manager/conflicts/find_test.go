package conflicts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// With Metacontroller's flags the leader Lease may have Metacontroller's name. It does not
// count, except in another namespace.
func TestOwnLeaseIsNoMetacontroller(t *testing.T) {
	fresh := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"items":[{"metadata":{"namespace":"ours","name":"metacontroller"},"spec":{"holderIdentity":"a","renewTime":%[1]q}},
			{"metadata":{"namespace":"theirs","name":"metacontroller"},"spec":{"holderIdentity":"b","renewTime":%[1]q}}]}`, fresh)
	}))
	t.Cleanup(server.Close)
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})).In(t)
	f := finder{client: client, isOwnLease: func(namespace, _ string) bool { return namespace == "ours" }}
	found, err := f.leaseHolders(t.Context())
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].name, "b, ") {
		t.Errorf("%+v, %v", found, err)
	}
}
