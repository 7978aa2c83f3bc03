package manager

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
		err := checkInspectAddress(address)
		if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v; want %q", address, err, words)
		}
	}
}

func TestInspectAddress(t *testing.T) {
	for _, test := range []struct {
		name, address, want string
		cluster             Cluster
	}{
		{"explicit", "127.0.0.1:5", "127.0.0.1:5", Cluster{InCluster: true}},
		{"disabled", "", "", Cluster{InCluster: true}},
		{"in a pod", InspectAuto, "127.0.0.1:8082", Cluster{InCluster: true, ProcessDir: "/folder"}},
		{"under dev", InspectAuto, "127.0.0.1:0", Cluster{ProcessDir: "/folder"}},
		{"no directory", InspectAuto, "", Cluster{}},
	} {
		if got := test.cluster.InspectAddress(test.address); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestParseHistory(t *testing.T) {
	for text, want := range map[string]History{"0": {Off: true}, "32Mi": {MaxBytes: 32 << 20}, "1000": {MaxBytes: 1000}} {
		if got, err := ParseHistory(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "much", "3Gi"} {
		if got, err := ParseHistory(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
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
