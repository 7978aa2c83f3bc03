package setpoint

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// FillIndexes fills the indexes of an app that is not running with objects, as JSON,
// until release is called. Concurrent calls wait for each other. The options Labels and
// Namespaces of the kinds apply. It is for tests: see package setpointtest. It returns an
// error if the app is invalid or has no index of a kind.
func (a *App) FillIndexes(objects ...json.RawMessage) (release func(), err error) {
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
		if !slices.ContainsFunc(a.registrations, func(p registration) bool { return p.hasIndex(of) }) {
			return nil, fmt.Errorf("the app %s has no index of %s", a.name, kind{o.APIVersion(), o.Kind()})
		}
		byKind[of] = append(byKind[of], o)
	}
	a.indexLock.Lock()
	ends := []func(){a.indexLock.Unlock}
	for _, p := range a.registrations {
		ends = append(ends, p.fillIndexes(byKind[p.controller().kind.group()]))
	}
	return func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}, nil
}

func (h *Handlers[T]) hasIndex(of object.GroupKind) bool {
	return len(h.indexes) > 0 && h.c.kind.group() == of
}

func (c *controller) handlesNamespace(namespace string) bool {
	return namespace == "" || len(c.namespaces) == 0 || slices.Contains(c.namespaces, namespace)
}

func (h *Handlers[T]) fillIndexes(objects []*object.Object) (release func()) {
	selector, err := labels.Parse(h.c.labels)
	if err != nil {
		selector = labels.Nothing() // Which has been said.
	}
	objects = slices.DeleteFunc(slices.Clone(objects), func(o *object.Object) bool {
		return matching(o, selector) == nil || !h.c.handlesNamespace(o.Namespace())
	})
	var ends []func()
	for _, index := range h.indexes {
		changed, stop := index.startWatch()
		for _, o := range objects {
			changed(cache.Event{New: o})
		}
		ends = append(ends, stop)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}
