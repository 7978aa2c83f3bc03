package userclient

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Cached permissions are used during an outage, for a while. Others are unknown.
func TestAccessCacheDuringOutage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	all := must.Get(NewCluster(&rest.Config{Host: server.URL})).In(t)
	client := must.Get(all.Client(User{Name: "ann"})).In(t)
	teams := object.Kind{Group: "example.org", Version: "v1", Plural: "teams", Kind: "Team"}
	client.access.Add(accessKey{"get", teams, "", "a"}, accessResult{true, time.Now().Add(-time.Minute)}, time.Hour)
	client.access.Add(accessKey{"get", teams, "", "b"}, accessResult{false, time.Now().Add(-time.Minute)}, time.Hour)
	for _, test := range []struct {
		name           string
		allowed, known bool
	}{{"a", true, true}, {"a", true, true}, {"b", false, true}, {"c", false, false}, {"d", false, false}} {
		got, err := client.CanI(t.Context(), "get", teams, "", test.name)
		if got != test.allowed || errors.Is(err, ErrUnreachable) == test.known {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}

func TestFilterAllowed(t *testing.T) {
	type row struct{ Name, Process string }
	all := []row{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got := FilterAllowed(all, func(c *row) bool {
		c.Process = "changed"
		return c.Name != "b"
	})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" || got[0].Process != "changed" || all[0].Process != "" {
		t.Errorf("allowed %+v of %+v", got, all)
	}
}
