package flags

import (
	"flag"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestNamespaces(t *testing.T) {
	for text, c := range map[string]struct {
		want []string
		err  string
	}{
		"":         {err: "names no namespace; omit the flag for all"},
		"a":        {want: []string{"a"}},
		"b, a,b,":  {want: []string{"b", "a"}},
		",":        {err: "names no namespace; omit the flag for all"},
		" ":        {err: "names no namespace; omit the flag for all"},
		"a,team/b": {err: `"team/b" is no name of a namespace: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
	} {
		var got Namespaces
		err := got.Set(text)
		if !slices.Equal(got, c.want) || err == nil && c.err != "" || err != nil && err.Error() != c.err {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestNamespacesOfSeveralFlags(t *testing.T) {
	var got Namespaces
	for _, text := range []string{"a", "b,a", ""} {
		must.Succeed(t, got.Set(text))
	}
	if got.String() != "a,b" {
		t.Errorf("got %s", &got)
	}
}

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
