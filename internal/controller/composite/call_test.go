package composite

import (
	"strconv"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// A cause that requires a call counts even if it is not among the listed causes. So does a failure:
// its response was not applied.
func TestMustCall(t *testing.T) {
	var many []queue.Cause
	for i := range 20 {
		many = append(many, queue.Cause{Kind: queue.ChildChanged, Object: queue.Key{Name: strconv.Itoa(i)}})
	}
	quiet := &run{Run: &controller.Run{Item: queue.Item{Causes: queue.NewCauses(many...)}}, memory: &memory{}}
	if quiet.mustCall() {
		t.Error("children that changed demand nothing by themselves")
	}
	for _, kind := range forceCallCauses {
		r := &run{Run: &controller.Run{Item: queue.Item{Causes: queue.NewCauses(append(many, queue.Cause{Kind: kind})...)}}, memory: &memory{}}
		if !r.mustCall() {
			t.Errorf("%s is lost among many causes", kind)
		}
	}
	quiet.memory.Result.Failing = true
	if !quiet.mustCall() {
		t.Error("after a failure the hook must be called")
	}
}
