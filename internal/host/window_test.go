package host

import (
	"testing"
)

func TestWindowIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		window  Window
		ok      bool
		exposed bool
	}{
		"none":            {ok: true},
		"on loopback":     {window: Window{Address: "127.0.0.1:8443"}, ok: true},
		"on localhost":    {window: Window{Address: "localhost:8443"}, ok: true},
		"in the open":     {window: Window{Address: ":8443"}, ok: true, exposed: true},
		"with TLS":        {window: Window{Address: ":8443", CertFile: "a", KeyFile: "b"}, ok: true},
		"half of TLS":     {window: Window{Address: ":8443", CertFile: "a"}},
		"behind a proxy":  {window: Window{Address: ":8443", TrustedProxies: []string{"10.0.0.0/8", "::1"}}, ok: true},
		"a proxy by name": {window: Window{Address: ":8443", TrustedProxies: []string{"proxy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.window.check(); (err == nil) != c.ok {
				t.Errorf("check: %v", err)
			}
			if c.ok && c.window.Address != "" && c.window.exposed() != c.exposed {
				t.Errorf("exposed: %v", !c.exposed)
			}
		})
	}
}
