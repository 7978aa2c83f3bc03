package cli

import (
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	r, err := readRoutes("hook.shop=localhost:1,named.shop:8080=127.0.0.1:2", []string{"hook.town=http://[::1]:3/", "HOOK.village.svc=x:4"})
	if err != nil {
		t.Fatal(err)
	}
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
		if got := r.of(address); got != want {
			t.Errorf("%s leads to %s, want %s", address, got, want)
		}
		// Fault M16: addresses without a route are reached by the proxy of the environment.
		if r.leads(address) != (want != address) {
			t.Errorf("%s: there is a route: %t", address, r.leads(address))
		}
	}
}

// A flag counts before the variable, and one without a host leads everywhere.
func TestRoutesOfFlagsComeFirst(t *testing.T) {
	r, err := readRoutes("hook.shop=a:1", []string{"hook.shop=b:2", "c:3"})
	if err != nil {
		t.Fatal(err)
	}
	if r.of("hook.shop:80") != "b:2" || r.of("other.shop:80") != "c:3" {
		t.Errorf("%+v", r)
	}
}

func TestRoutesAreChecked(t *testing.T) {
	for _, c := range []struct{ variable, flag, want string }{
		{"", "localhost", "--hook \"localhost\": want HOST:PORT"},
		{"", "http://localhost", "--hook \"http://localhost\": want HOST:PORT"},
		{"", "http://localhost:1/sync", "leave out /sync: the path is the one the controller has"},
		{"a=b", "", `$SETPOINT_HOOKS: "a=b": want HOST:PORT`},
	} {
		var flags []string
		if c.flag != "" {
			flags = []string{c.flag}
		}
		if _, err := readRoutes(c.variable, flags); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestControllersAreNamedByTheirKind(t *testing.T) {
	for arg, want := range map[string]int{
		"compositecontroller/a": 2, "CompositeControllers/a": 2, "cc/a": 2, "cctl/a": 2, "spcc/a": 1,
		"compositecontroller.setpoint.dev/a": 1, "decoratorcontrollers.metacontroller.k8s.io/a": 1, "dec/a": 2, "spdc/a": 1,
		// Fault G5: short names with their group, and all short names.
		"dec.metacontroller.k8s.io/a": 1, "cc.metacontroller.k8s.io/a": 1, "spcc.setpoint.dev/a": 1,
		"spcc.metacontroller.k8s.io/a": 0, "dec.example.com/a": 0, "sphc/a": 1, "spac/a": 1, "SPCC/a": 1,
		"pod/a": 0, "a": 0,
	} {
		word, _, _ := strings.Cut(arg, "/")
		if isController(arg) != (want > 0) || strings.Contains(arg, "/") && len(kindsMeant(word)) != want {
			t.Errorf("%s may mean %d kinds, want %d", arg, len(kindsMeant(word)), want)
		}
	}
}
