package composite

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// A taken name is a fault of its own kind, whatever wraps its error: its advice is another name, not a retry.
func TestTakenNameIsAFault(t *testing.T) {
	err := failure.WithReason(controller.ReasonWriteFailed, nameTakenError("create Namespace a: it already exists and has no owner"))
	if fault := record.FaultOf(err); fault == nil || fault.Kind != failure.NameTaken {
		t.Errorf("classified as %+v", fault)
	}
}
