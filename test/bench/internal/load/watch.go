package load

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
	"github.com/setpoint-dev/setpoint/test/bench/internal/watch"
)

// Observer watches a namespace's parents and children until it is closed.
type Observer struct{ watches []*watch.Watch }

// Observe calls see for every parent and child of a namespace, from several
// goroutines, and fail if it cannot go on. It returns after the initial list.
func Observe(ctx context.Context, client *cluster.Client, namespace string, see func(Observation, time.Time), fail func(error)) (*Observer,
	error) {
	o := &Observer{}
	sink := watch.Sink[object]{
		See:  func(seen *object, gone bool, at time.Time) { see(observation(seen, gone), at) },
		Fail: fail,
	}
	for _, path := range []string{ThingsPath(namespace), ChildrenPath(namespace)} {
		w, err := watch.Start(ctx, client, path, sink)
		if err != nil {
			o.Close()
			return nil, err
		}
		o.watches = append(o.watches, w)
	}
	return o, nil
}

// Close ends the watches.
func (o *Observer) Close() {
	for _, w := range o.watches {
		w.Close()
	}
}

// object is what is read of a parent or a child.
type object struct {
	watch.Head
	Spec   thing.Spec        `json:"spec"`
	Status thing.Status      `json:"status"`
	Data   map[string]string `json:"data"`
}

func observation(seen *object, gone bool) Observation {
	s := Observation{
		Name:   seen.Metadata.Name,
		UID:    seen.Metadata.UID,
		Gone:   gone,
		Child:  seen.Kind != thing.Kind,
		Wanted: seen.Spec.Value,
		Ready:  seen.Status.Ready,
		Value:  seen.Status.Value,
	}
	if s.Child {
		s.Value = seen.Data[thing.ValueKey]
	}
	return s
}
