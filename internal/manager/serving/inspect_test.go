package serving

import (
	"os"
	"strings"
	"testing"
)

func TestInspectAddressMustBeLoopback(t *testing.T) {
	for address, words := range map[string]string{
		"":               "",
		"127.0.0.1:8082": "",
		"[::1]:0":        "",
		"localhost:0":    "",
		":8082":          "is not on loopback",
		"0.0.0.0:8082":   "is not on loopback",
		"10.1.2.3:1":     "is not on loopback",
		"example.com:1":  "is not on loopback",
		"127.0.0.1":      "such as 127.0.0.1:8082",
	} {
		err := CheckInspectAddress(address)
		if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v; want %q", address, err, words)
		}
	}
}

func TestPodName(t *testing.T) {
	t.Setenv("POD_NAME", "web-1")
	t.Setenv("POD_NAMESPACE", "shop")
	if got := podName("elsewhere"); got != "shop/web-1" {
		t.Errorf("%q, want shop/web-1", got)
	}
	t.Setenv("POD_NAME", "")
	t.Setenv("POD_NAMESPACE", "")
	machine, err := os.Hostname()
	if got := podName("elsewhere"); got != "elsewhere/"+machine || err != nil {
		t.Errorf("%q, %v; want the machine in the namespace", got, err)
	}
}
