package hooks

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	r := must.Get(ParseRoutes("hook.shop=localhost:1,named.shop:8080=127.0.0.1:2", []string{"hook.town=http://[::1]:3/", "HOOK.village.svc=x:4"})).In(t)
	for address, want := range map[string]string{
		"hook.shop:80":                      "localhost:1",
		"hook.shop.svc:443":                 "localhost:1",
		"hook.shop.svc.cluster.local.:443":  "localhost:1",
		"named.shop:8080":                   "127.0.0.1:2",
		"named.shop.svc.cluster.local:8080": "127.0.0.1:2",
		"named.shop:80":                     "named.shop:80",
		"hook.town:80":                      "[::1]:3",
		"hook.village:80":                   "x:4",
		"127.0.0.1:9":                       "127.0.0.1:9",
		"shop:80":                           "shop:80",
	} {
		if got := r.target(address); got != want {
			t.Errorf("%s leads to %s, want %s", address, got, want)
		}
		// Fault M16: addresses without a route are reached by the proxy of the environment.
		if r.Has(address) != (want != address) {
			t.Errorf("%s: there is a route: %t", address, r.Has(address))
		}
	}
}

// A flag counts before the variable, and one without a host leads everywhere.
func TestRouteFlagsComeFirst(t *testing.T) {
	r := must.Get(ParseRoutes("hook.shop=a:1", []string{"hook.shop=b:2", "c:3"})).In(t)
	if r.target("hook.shop:80") != "b:2" || r.target("other.shop:80") != "c:3" {
		t.Errorf("%+v", r)
	}
}

func TestRoutesAreChecked(t *testing.T) {
	for _, c := range []struct{ variable, flag, want string }{
		{"", "localhost", "--hook \"localhost\": want HOST:PORT"},
		{"", "http://localhost", "--hook \"http://localhost\": want HOST:PORT"},
		{"", "http://localhost:1/sync", "remove /sync: the path is that of the controller's URL"},
		{"a=b", "", `$SETPOINT_HOOKS "a=b": want HOST:PORT`},
	} {
		var flags []string
		if c.flag != "" {
			flags = []string{c.flag}
		}
		if _, err := ParseRoutes(c.variable, flags); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
