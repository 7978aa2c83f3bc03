package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/watch"
)

// observedObject is what is read of an ExchangeRate or a ConfigMap.
type observedObject struct {
	watch.Head
	Data   map[string]string `json:"data"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// observed are the objects of a namespace as two watches show them.
type observed struct {
	watches []*watch.Watch
	mu      sync.Mutex
	// objects and configMaps are those that are there, by name.
	objects, configMaps map[string]*observedObject
	// versions counts what was seen of each ConfigMap, its end included.
	versions map[string]int
	failure  error
	// changed has room for one word that something has changed.
	changed chan struct{}
}

func observe(ctx context.Context, admin *cluster.Client, namespace string) (*observed, error) {
	s := &observed{objects: map[string]*observedObject{}, configMaps: map[string]*observedObject{}, versions: map[string]int{},
		changed: make(chan struct{}, 1)}
	for path, into := range map[string]map[string]*observedObject{
		objectsPath(namespace):    s.objects,
		configMapsPath(namespace): s.configMaps,
	} {
		see := func(object *observedObject, gone bool, _ time.Time) { s.record(into, object, gone) }
		w, err := watch.Start(ctx, admin, path, watch.Sink[observedObject]{See: see, Fail: s.fail})
		if err != nil {
			s.close()
			return nil, err
		}
		s.watches = append(s.watches, w)
	}
	return s, nil
}

func (s *observed) close() {
	for _, w := range s.watches {
		w.Close()
	}
}

func (s *observed) record(into map[string]*observedObject, object *observedObject, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone {
		delete(into, object.Metadata.Name)
	} else {
		into[object.Metadata.Name] = object
	}
	if object.Kind == "ConfigMap" {
		s.versions[object.Metadata.Name]++
	}
	s.notify()
}

// changes is how often a ConfigMap was another one than before.
func (s *observed) changes(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[name]
}

func (s *observed) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = errors.Join(s.failure, err)
	s.notify()
}

func (s *observed) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// wait waits until something holds of what is seen. When ctx ends before, it says
// why and what is missing.
func (s *observed) wait(ctx context.Context, holds func() error) error {
	for {
		s.mu.Lock()
		failure, missing := s.failure, holds()
		s.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case missing == nil:
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		}
	}
}

// haveRate says that the ConfigMaps of some objects have the rate of a currency.
func (s *observed) haveRate(from, to int, currency string) func() error {
	return func() error {
		wrong, one := 0, ""
		for i := from; i < to; i++ {
			name := nameOf(i)
			if c := s.configMaps[name]; c == nil || c.Data["rate"] != rateOf(currency) {
				wrong, one = wrong+1, name
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%d of %d ConfigMaps differ from the desired state, %s among them", wrong, to-from, one)
		}
		return nil
	}
}

// deleted says that some objects and their ConfigMaps are no more.
func (s *observed) deleted(from, to int) func() error {
	return func() error {
		for i := from; i < to; i++ {
			name := nameOf(i)
			if s.objects[name] != nil || s.configMaps[name] != nil {
				return fmt.Errorf("%s is still there, or its ConfigMap", name)
			}
		}
		return nil
	}
}

// hasFalseCondition says that a condition of an object tells of something wrong.
func (s *observed) hasFalseCondition(i int) func() error {
	return func() error {
		object := s.objects[nameOf(i)]
		if object == nil {
			return fmt.Errorf("%s does not exist", nameOf(i))
		}
		for _, condition := range object.Status.Conditions {
			if condition.Status == "False" {
				return nil
			}
		}
		return fmt.Errorf("no condition of %s is False", nameOf(i))
	}
}
