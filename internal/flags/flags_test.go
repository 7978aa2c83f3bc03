package flags

import (
	"flag"
	"github.com/setpoint-dev/setpoint/internal/must"
	"testing"
)

// A program on a laptop serves no other machine unless it is told to.
func TestAddress(t *testing.T) {
	for _, c := range []struct {
		service string
		args    []string
		want    string
	}{
		{"", nil, "127.0.0.1:8080"},
		{"10.96.0.1", nil, ":8080"},
		{"", []string{"--address=:9999"}, ":9999"},
		{"", []string{"--address="}, ""},
		{"10.96.0.1", []string{"--address=127.0.0.1:1"}, "127.0.0.1:1"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", c.service)
		var f Flags
		set := flag.NewFlagSet("run", flag.ContinueOnError)
		f.Register(set, Defaults{})
		must.Succeed(t, set.Parse(c.args))
		if err := f.Check(); err != nil || f.Address != c.want {
			t.Errorf("%q, %v: %q, %v", c.service, c.args, f.Address, err)
		}
	}
}
