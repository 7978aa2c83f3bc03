package setpoint

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (a implementation) FillIndexes(objects ...json.RawMessage) (release func(), err error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	byKind := map[object.GroupKind][]*object.Object{}
	for _, text := range objects {
		o, err := object.Parse(text)
		if err != nil {
			return nil, err
		}
		of := o.GroupKind()
		if !slices.ContainsFunc(a.controllers, func(c *controller) bool { return len(c.indexes) > 0 && c.kind.group() == of }) {
			return nil, fmt.Errorf("the app %s has no index of %s", a.name, kind{o.APIVersion(), o.Kind()})
		}
		byKind[of] = append(byKind[of], o)
	}
	a.indexLock.Lock()
	ends := []func(){a.indexLock.Unlock}
	for _, c := range a.controllers {
		ends = append(ends, c.fillIndexes(byKind[c.kind.group()])...)
	}
	return func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}, nil
}

// selects reports whether the options Labels and Namespaces of the kind select an object.
func (c *controller) selects(o *object.Object) bool {
	selector, err := labels.Parse(c.labels)
	if err != nil || matching(o, selector) == nil {
		return false // check reports an invalid selector.
	}
	namespace := o.Namespace()
	return namespace == "" || len(c.namespaces) == 0 || slices.Contains(c.namespaces, namespace)
}

// fillIndexes fills the indexes with the objects that the kind selects, and returns the
// functions that empty them.
func (c *controller) fillIndexes(objects []*object.Object) (ends []func()) {
	for _, index := range c.indexes {
		changed, stop := index.startWatch()
		ends = append(ends, stop)
		for _, o := range objects {
			if c.selects(o) {
				changed(cache.Event{New: o})
			}
		}
	}
	return ends
}
