// Package selector reads the selectors by which parents adopt children, and finds the parents whose selectors match an
// orphan.
package selector

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Of returns the selector of a parent's children.
func Of(parent *object.Object, generated bool) (labels.Selector, error) {
	if generated {
		return labels.SelectorFromSet(labels.Set{plan.UIDLabel: strings.Clone(parent.UID())}), nil
	}
	field := parent.Field("spec", "selector")
	if field == nil {
		return nil, errors.New("spec.selector: required, unless the controller sets generateSelector")
	}
	var declared metav1.LabelSelector
	if err := json.Unmarshal(field, &declared); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(declared.MatchLabels)+len(declared.MatchExpressions) == 0 {
		return nil, errors.New("spec.selector: must have matchLabels or matchExpressions; an empty selector would match everything")
	}
	parsed, err := metav1.LabelSelectorAsSelector(&declared)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return parsed, nil
}

// RequiredLabels returns labels of which a matching object has at most one: the values of the requirement with the
// fewest; nil if none is required.
func RequiredLabels(selector labels.Selector) []object.Label {
	requirements, _ := selector.Requirements()
	var required []object.Label
	for _, r := range requirements {
		values := r.Values().UnsortedList()
		requires := slices.Contains([]selection.Operator{selection.Equals, selection.DoubleEquals, selection.In}, r.Operator())
		if !requires || required != nil && len(values) >= len(required) {
			continue
		}
		required = make([]object.Label, len(values))
		for i, value := range values {
			required[i] = object.Label{Key: r.Key(), Value: value}
		}
	}
	return required
}

// Index finds the parents whose selectors match an orphan without testing every selector. A
// selector is indexed by one of the labels it requires. Those that require none are tested one by
// one. Generated selectors are indexed by UID.
type Index struct {
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

// New returns an empty Index.
func New() *Index {
	return &Index{generated: uidIndex{byUID: map[uint64]queue.Key{}, uidOf: map[queue.Key]uint64{}},
		byKey: map[queue.Key]indexedSelector{}, byLabel: map[object.Label][]queue.Key{}}
}

// Set indexes the selector of a parent. Parents that are being deleted or have an invalid selector
// adopt nothing; their run reports the error.
func (s *Index) Set(key queue.Key, parent *object.Object, generated bool) {
	switch {
	case parent.Deleting():
		s.Drop(key)
	case generated:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.generated.set(key, parent)
	default:
		s.setSelector(key, parent)
	}
}

func (s *Index) setSelector(key queue.Key, parent *object.Object) {
	selector, err := Of(parent, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, isKnown := s.byKey[key]
	if isKnown && err == nil && known.selector.String() == selector.String() {
		return
	}
	s.remove(key)
	if err == nil {
		s.add(key, indexedSelector{selector: selector, pairs: RequiredLabels(selector)})
	}
}

// Drop drops the selector of a parent.
func (s *Index) Drop(parent queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generated.drop(parent)
	s.remove(parent)
}

// Matching returns the parents that would adopt an orphan.
func (s *Index) Matching(orphan *object.Object, sameNamespace bool) []queue.Key {
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

func (s *Index) add(key queue.Key, one indexedSelector) {
	s.byKey[key] = one
	for _, pair := range one.pairs {
		s.byLabel[pair] = append(s.byLabel[pair], key)
	}
	if len(one.pairs) == 0 {
		s.unindexed = append(s.unindexed, key)
	}
}

func (s *Index) remove(key queue.Key) {
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

// uidIndex finds the parent whose generated selector matches an orphan. It holds digests of UIDs,
// since parsed selectors take three times the memory. If two digests collide, the run of the parent
// checks its selector.
type uidIndex struct {
	byUID map[uint64]queue.Key
	uidOf map[queue.Key]uint64
}

// set indexes a parent, in the place of a former one with its name.
func (i uidIndex) set(key queue.Key, parent *object.Object) {
	uid := object.DigestOf([]byte(parent.UID()))
	if known, isKnown := i.uidOf[key]; isKnown && known == uid {
		return
	}
	i.drop(key)
	i.uidOf[key], i.byUID[uid] = uid, key
}

func (i uidIndex) drop(key queue.Key) {
	uid, known := i.uidOf[key]
	if !known {
		return
	}
	delete(i.uidOf, key)
	if i.byUID[uid] == key {
		delete(i.byUID, uid)
	}
}

// find returns the parent whose UID is in the label of an orphan.
func (i uidIndex) find(orphan *object.Object) (key queue.Key, found bool) {
	uid, labeled := orphan.Labels().Lookup(plan.UIDLabel)
	if !labeled {
		return queue.Key{}, false
	}
	key, found = i.byUID[object.DigestOf([]byte(uid))]
	return key, found
}
