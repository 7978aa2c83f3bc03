package scenario

import (
	"testing"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

func TestNonChildWrites(t *testing.T) {
	values := map[string]float64{}
	addRequests(values, cluster.Requests{cluster.Create: 20, cluster.Update: 20, cluster.Status: 10, cluster.Parent: 5}, 10)
	if values["beside"] != 1.5 || values["requests"] != 5.5 {
		t.Errorf("got %v", values)
	}
}
