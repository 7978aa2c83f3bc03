package sdk

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// relatedKind is a kind of related objects, with the function of Watches.
type relatedKind struct {
	of *Controller
	// handledBy returns the handled objects of a related one.
	handledBy func(*object.Object) ([]types.NamespacedName, error)
}

// mapObject returns the handled objects of a related one. A panic of the function is an error.
func (k relatedKind) mapObject(o *object.Object) (names []types.NamespacedName, err error) {
	err = failure.Recover("the function of Watches", func() (err error) {
		names, err = k.handledBy(o)
		return err
	})
	return names, err
}

// mapAndLog is mapObject in a cluster.
func (k relatedKind) mapAndLog(o *object.Object) []types.NamespacedName {
	names, err := k.mapObject(o)
	if err != nil {
		stack, _ := failure.PanicStack(err)
		k.of.app.logger().Error("related object not mapped", "object", o.Ref().String(), "error", failure.OneLine(err), "stack", stack)
	}
	return names
}
