package manager

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

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
	for text, want := range map[string]inspect.HistoryOptions{"0": {Off: true}, "32Mi": {MaxBytes: 32 << 20}, "1000": {MaxBytes: 1000}} {
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
