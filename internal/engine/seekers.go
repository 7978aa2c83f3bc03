package engine

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// seekers finds the parents whose selector an object without owner matches,
// without trying every parent: a selector is filed under one of the label pairs
// it demands. The few that demand none are tried one by one.
type seekers struct {
	mu     sync.RWMutex
	byKey  map[queue.Key]seeker
	byPair map[object.Label][]queue.Key
	others []queue.Key
}

type seeker struct {
	selector labels.Selector
	// pairs is what the seeker is filed under; empty among the others.
	pairs []object.Label
}

func newSeekers() *seekers {
	return &seekers{byKey: map[queue.Key]seeker{}, byPair: map[object.Label][]queue.Key{}}
}

// note files a parent under what it seeks now. A parent whose selector cannot
// be understood seeks nobody; its run says so. Nor does one that is going away.
func (s *seekers) note(parent *object.Object, generated bool) {
	key := keyOf(parent)
	selector, err := selectorOf(parent, generated)
	seeks := err == nil && !parent.Deleting()
	s.mu.Lock()
	defer s.mu.Unlock()
	known, isKnown := s.byKey[key]
	if isKnown && seeks && known.selector.String() == selector.String() {
		return
	}
	s.remove(key)
	if !seeks {
		return
	}
	s.add(key, seeker{selector: selector, pairs: demanded(selector)})
}

// drop removes a parent.
func (s *seekers) drop(parent queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(parent)
}

// of returns the parents that would take an orphan in.
func (s *seekers) of(orphan *object.Object, sameNamespace bool) []queue.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []queue.Key
	try := func(key queue.Key) {
		if sameNamespace && key.Namespace != orphan.Namespace() {
			return
		}
		if s.byKey[key].selector.Matches(orphan.Labels()) {
			found = append(found, key)
		}
	}
	for pair := range orphan.Labels().All() {
		for _, key := range s.byPair[pair] {
			try(key)
		}
	}
	for _, key := range s.others {
		try(key)
	}
	return found
}

func (s *seekers) add(key queue.Key, one seeker) {
	s.byKey[key] = one
	for _, pair := range one.pairs {
		s.byPair[pair] = append(s.byPair[pair], key)
	}
	if len(one.pairs) == 0 {
		s.others = append(s.others, key)
	}
}

func (s *seekers) remove(key queue.Key) {
	one, known := s.byKey[key]
	if !known {
		return
	}
	delete(s.byKey, key)
	same := func(other queue.Key) bool { return other == key }
	for _, pair := range one.pairs {
		if s.byPair[pair] = slices.DeleteFunc(s.byPair[pair], same); len(s.byPair[pair]) == 0 {
			delete(s.byPair, pair)
		}
	}
	s.others = slices.DeleteFunc(s.others, same)
}

// demanded are label pairs of which a matching object has exactly one: the
// values of the narrowest requirement that names any.
func demanded(selector labels.Selector) []object.Label {
	requirements, _ := selector.Requirements()
	var pairs []object.Label
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
		default:
			continue
		}
		values := r.Values().UnsortedList()
		if pairs != nil && len(values) >= len(pairs) {
			continue
		}
		pairs = pairs[:0:0]
		for _, value := range values {
			pairs = append(pairs, object.Label{Key: r.Key(), Value: value})
		}
	}
	return pairs
}
