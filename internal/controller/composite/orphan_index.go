package composite

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// orphanIndex finds the parents whose selectors match an orphan without testing every selector. A
// selector is indexed by one of the labels it requires. Those that require none are tested one by
// one. Generated selectors are indexed by UID.
type orphanIndex struct {
	mu        sync.RWMutex
	generated uidIndex
	byKey     map[queue.Key]indexedSelector
	byLabel   map[object.Label][]queue.Key
	unindexed []queue.Key
}

type indexedSelector struct {
	selector labels.Selector
	// pairs are the labels it is indexed by; empty if it is unindexed.
	pairs []object.Label
}

func newOrphanIndex() *orphanIndex {
	return &orphanIndex{generated: newUIDIndex(), byKey: map[queue.Key]indexedSelector{}, byLabel: map[object.Label][]queue.Key{}}
}

// set indexes the selector of a parent. Parents that are being deleted or have an invalid selector
// adopt nothing; their run reports the error.
func (s *orphanIndex) set(parent *object.Object, generated bool) {
	if parent.Deleting() {
		s.drop(controller.KeyOf(parent))
		return
	}
	if generated {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.generated.set(controller.KeyOf(parent), parent)
		return
	}
	s.setSelector(controller.KeyOf(parent), parent)
}

func (s *orphanIndex) setSelector(key queue.Key, parent *object.Object) {
	selector, err := selectorOf(parent, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, isKnown := s.byKey[key]
	if isKnown && err == nil && known.selector.String() == selector.String() {
		return
	}
	s.remove(key)
	if err == nil {
		s.add(key, indexedSelector{selector: selector, pairs: requiredLabels(selector)})
	}
}

func (s *orphanIndex) drop(parent queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generated.drop(parent)
	s.remove(parent)
}

// matching returns the parents that would adopt an orphan.
func (s *orphanIndex) matching(orphan *object.Object, sameNamespace bool) []queue.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	reaches := func(key queue.Key) bool { return !sameNamespace || key.Namespace == orphan.Namespace() }
	var found []queue.Key
	if key, there := s.generated.find(orphan); there && reaches(key) {
		found = append(found, key)
	}
	try := func(key queue.Key) {
		if reaches(key) && s.byKey[key].selector.Matches(orphan.Labels()) {
			found = append(found, key)
		}
	}
	for pair := range orphan.Labels().All() {
		for _, key := range s.byLabel[pair] {
			try(key)
		}
	}
	for _, key := range s.unindexed {
		try(key)
	}
	return found
}

func (s *orphanIndex) add(key queue.Key, one indexedSelector) {
	s.byKey[key] = one
	for _, pair := range one.pairs {
		s.byLabel[pair] = append(s.byLabel[pair], key)
	}
	if len(one.pairs) == 0 {
		s.unindexed = append(s.unindexed, key)
	}
}

func (s *orphanIndex) remove(key queue.Key) {
	one, known := s.byKey[key]
	if !known {
		return
	}
	delete(s.byKey, key)
	same := func(other queue.Key) bool { return other == key }
	for _, pair := range one.pairs {
		if s.byLabel[pair] = slices.DeleteFunc(s.byLabel[pair], same); len(s.byLabel[pair]) == 0 {
			delete(s.byLabel, pair)
		}
	}
	s.unindexed = slices.DeleteFunc(s.unindexed, same)
}

// requiredLabels returns labels of which a matching object has exactly one: the values of the
// requirement with the fewest.
func requiredLabels(selector labels.Selector) []object.Label {
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
