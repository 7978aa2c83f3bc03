package composite

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// childWatches are the watches of one kind of children: one, or one for each namespace if a program
// of cluster-scoped parents is limited to namespaces.
type childWatches []controller.Watch

// owned returns the objects that a parent controls.
func (w childWatches) owned(parent *object.Object) (all []*object.Object) {
	for _, one := range w {
		all = append(all, one.View.Owned(parent)...)
	}
	return all
}

// orphans returns the objects without a controller that match a selector.
func (w childWatches) orphans(namespace string, selector labels.Selector) (all []*object.Object) {
	for _, one := range w {
		all = append(all, one.View.Orphans(namespace, selector)...)
	}
	return all
}
