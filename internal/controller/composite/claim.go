package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// claim finds the children of the parent. It adopts orphans that match the selector and releases
// children that no longer do.
func (r *run) claim(ctx context.Context) error {
	if err := r.resolveSelector(); err != nil {
		return err
	}
	if err := r.recoverLostChildren(ctx); err != nil {
		return err
	}
	changes, err := r.listChildren()
	if err != nil || len(changes) == 0 {
		return err
	}
	if err := r.applyClaims(ctx, changes); err != nil {
		return err
	}
	_, err = r.listChildren()
	return err
}

// resolveSelector sets the selector of the children.
func (r *run) resolveSelector() error {
	if r.planner.Selector != nil || r.program.isDecorator() {
		return nil
	}
	selector, err := selectorOf(r.Stored, r.program.GenerateSelector)
	if err != nil {
		return failure.WithReason(ReasonInvalidParent, err)
	}
	r.planner.Selector = selector
	return nil
}

// listChildren reads the children from the caches and returns the writes that adopt and release.
func (r *run) listChildren() ([]plan.Action, error) {
	var changes []plan.Action
	r.children, r.storedRevisions = r.children[:0], r.revisionsOf(r.Stored)
	for _, kind := range r.Controller.children {
		claim, err := r.planner.Claim(kind.rule.Resource, r.owned(kind), r.orphans(kind))
		if err != nil {
			return nil, failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("claim %s: %w", kind.rule.Resource, err))
		}
		r.children = append(r.children, claim.Children)
		changes = append(changes, claim.Changes...)
	}
	return changes, nil
}

// owned returns the objects of a kind that the parent controls.
func (r *run) owned(kind childKind) []*object.Object {
	if r.dry != nil {
		return r.dry.Owned(kind.rule.Resource, r.Stored.UID(), kind.watches.owned(r.Stored))
	}
	return kind.watches.owned(r.Stored)
}

// orphans returns the orphans of a kind that the parent's selector matches. Decorators and parents
// that are being finalized adopt nothing.
func (r *run) orphans(kind childKind) []*object.Object {
	if r.program.isDecorator() || r.Phase == controller.PhaseFinalizing {
		return nil
	}
	return kind.watches.orphans(r.Stored.Namespace(), r.planner.Selector)
}

// applyClaims adopts and releases. It first checks that the parent is not deleted: the garbage
// collector would delete adopted children with it.
func (r *run) applyClaims(ctx context.Context, changes []plan.Action) error {
	live, err := r.writer().Get(ctx, r.program.Parent, r.Stored.Namespace(), r.Stored.Name())
	if apply.NotFound(err) {
		return controller.ErrConflict
	}
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("read %s before adopting children: %w", r.Stored.Ref(), err))
	}
	if live.UID() != r.Stored.UID() || live.Deleting() {
		return controller.ErrConflict
	}
	claims := plan.Plan{Stages: [][]plan.Action{changes}}
	r.Record.Planned(claims, 0)
	return r.observeResults(ctx, r.applyPlan(ctx, claims))
}

// observed returns the children of all kinds.
func (r *run) observed() []*object.Object {
	var all []*object.Object
	for _, children := range r.children {
		all = append(all, children...)
	}
	return all
}

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

// uidIndex finds the parent whose generated selector matches an orphan. It holds digests of UIDs,
// since parsed selectors take three times the memory. If two digests collide, the run of the parent
// checks its selector.
type uidIndex struct {
	byUID map[uint64]queue.Key
	uidOf map[queue.Key]uint64
}

func newUIDIndex() uidIndex {
	return uidIndex{byUID: map[uint64]queue.Key{}, uidOf: map[queue.Key]uint64{}}
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

// lostChild is a child that disappeared from a watch by label. It may be deleted, or only have lost
// the label: then it still exists and is still owned, and without its label it would never be
// deleted.
type lostChild struct {
	resource             object.Resource
	namespace, name, uid string
}

// addLost remembers lost children of a parent for its next run.
func (c *Controller) addLost(parent queue.Key, lost ...lostChild) {
	c.lostChildren.Edit(func(all map[queue.Key][]lostChild) { all[parent] = append(all[parent], lost...) })
}

// noteLostChild remembers a child that disappeared from a watch by label. Standby controllers skip
// it: they have no runs that would look for it.
func (c *Controller) noteLostChild(child *object.Object) {
	if !c.program.GenerateSelector || !c.Running() || child.Deleting() {
		return
	}
	parent := c.ownerOf(child)
	if parent == nil {
		return
	}
	for _, kind := range c.children {
		if kind.rule.Resource.GroupKind() == child.GroupKind() {
			// The strings are slices of the whole object.
			c.addLost(controller.KeyOf(parent), lostChild{
				kind.rule.Resource, strings.Clone(child.Namespace()), strings.Clone(child.Name()), strings.Clone(child.UID()),
			})
		}
	}
}

// recoverLostChildren restores the label of lost children that still exist and are still owned.
func (r *run) recoverLostChildren(ctx context.Context) error {
	all := r.lostChildren.Take(r.Item.Key)
	for i, one := range all {
		err := r.recoverLostChild(ctx, one)
		if apply.Forbidden(err) {
			// Missing permissions do not stop the rest of the run.
			r.addLost(r.Item.Key, one)
			continue
		}
		if err != nil {
			r.addLost(r.Item.Key, all[i:]...)
			return err
		}
	}
	return nil
}

func (r *run) recoverLostChild(ctx context.Context, one lostChild) error {
	live, err := r.writer().Get(ctx, one.resource, one.namespace, one.name)
	if apply.NotFound(err) {
		return nil
	}
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("get lost child %s %s: %w", one.resource.Kind, one.name, err))
	}
	// A child with another label was released on purpose.
	lost := live.ControlledBy(r.Stored.UID()) && !live.Labels().Has(plan.UIDLabel)
	if live.UID() != one.uid || !lost || live.Deleting() {
		return nil
	}
	return r.relabel(ctx, one.resource, live, plan.UIDLabel)
}

// selectorOf returns the selector of a parent's children.
func selectorOf(parent *object.Object, generated bool) (labels.Selector, error) {
	if generated {
		return labels.SelectorFromSet(labels.Set{plan.UIDLabel: strings.Clone(parent.UID())}), nil
	}
	field := parent.Field("spec", "selector")
	if field == nil {
		return nil, errors.New("spec.selector: required, unless the controller sets generateSelector")
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(field, &selector); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, errors.New("spec.selector: must have matchLabels or matchExpressions; an empty selector would match everything")
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return parsed, nil
}
