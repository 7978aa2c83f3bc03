package related

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// namespaceSelection selects the labels of namespaces.
var namespaceSelection = cache.Selection{Resource: object.Namespaces, Metadata: true}

const (
	errorCheckInterval = time.Second      // of watches that have not synced
	idleTimeout        = 30 * time.Second // after which an unused watch is closed
)

// Options of a Registry. Store, Resolve and Enqueue are required.
type Options struct {
	Store *cache.Cache
	Scope Scope
	// Managed includes metadata.managedFields in related objects.
	Managed bool
	// Resolve finds the resource of a kind. It is called whenever a rule names a new kind.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// Enqueue is called when the related objects of a parent change. changed is the object or namespace that did; nil
	// if the watches of the parent have synced or failed. It must be quick and must not call the Registry.
	Enqueue func(parent queue.Key, changed *object.Object)
}

// Registry has the rules of all parents of a controller. Only Set and Drop of one parent must not run at the same time.
type Registry struct {
	options Options
	// after is time.AfterFunc, unless a test has other timers.
	after   func(d time.Duration, do func()) (stop func() bool)
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	parents  map[queue.Key]*ruleSet
	ruleSets map[string]*ruleSet
	rules    map[string]*sharedRule
	watches  map[cache.Selection]*sharedWatch
	// nextSerial numbers the rules, eventID the events.
	nextSerial, eventID uint64
}

// New returns an empty registry. It sends no request before the first rule.
func New(o Options) *Registry {
	return &Registry{
		options: o, after: func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop },
		parents: map[queue.Key]*ruleSet{}, ruleSets: map[string]*ruleSet{},
		rules: map[string]*sharedRule{}, watches: map[cache.Selection]*sharedWatch{},
	}
}

// Set replaces the rules of a parent. It validates all of them first: after an error, which is a *RuleError, the former
// rules stay. A kind that is not served is such an error, so call Set again later.
//
// Set does not wait for watches: see Pending.
func (r *Registry) Set(ctx context.Context, parent queue.Key, rules []hook.RelatedRule) error {
	patterns, err := r.patterns(ctx, parent, rules)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	former, requested := r.parents[parent], r.ruleSetFor(patterns)
	if requested == former {
		return nil
	}
	requested.parents[parent] = struct{}{}
	r.parents[parent] = requested
	if former != nil {
		r.detach(parent, former)
	}
	return nil
}

// patterns validates the rules of a parent.
func (r *Registry) patterns(ctx context.Context, parent queue.Key, rules []hook.RelatedRule) ([]pattern, error) {
	return r.options.Scope.patterns(ctx, rules, parent.Namespace, r.resolve)
}

// resolve finds the resource of a kind. It does not call Resolve while a rule watches the kind.
func (r *Registry) resolve(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
	r.mu.Lock()
	for used, t := range r.watches {
		if used != namespaceSelection && used.Resource.Plural == plural && used.Resource.APIVersion() == apiVersion && len(t.rules) > 0 {
			r.mu.Unlock()
			return used.Resource, nil
		}
	}
	r.mu.Unlock()
	return r.options.Resolve(ctx, apiVersion, plural)
}

// Drop removes a parent. Unused watches are closed after a while.
func (r *Registry) Drop(parent queue.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if former := r.parents[parent]; former != nil && !r.closed {
		delete(r.parents, parent)
		r.detach(parent, former)
	}
}

// Pending returns the watches of a parent that have not synced. Do not call a hook while there are
// any, because it would miss objects. Enqueue is called when the last one has synced.
func (r *Registry) Pending(parent queue.Key) []cache.Stat {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.parents[parent]
	if a == nil || a.synced {
		return nil
	}
	missing := map[*sharedWatch]struct{}{}
	for _, one := range a.rules {
		for _, t := range one.pendingWatches() {
			missing[t] = struct{}{}
		}
	}
	return statesOf(maps.Keys(missing))
}

// Snapshot is the related objects of a parent at one time.
type Snapshot struct {
	// Groups has a group for each kind in the rules, even without objects, sorted as in the request. It is read-only.
	Groups []hook.Group
	// Digest is of the groups without resource versions, valid in this process only; 0 without rules.
	Digest uint64
}

// WithEmpty returns the snapshot with an empty group for each of some kinds that it does not have.
func (s Snapshot) WithEmpty(kinds []object.Resource) Snapshot {
	var digest maphash.Hash
	digest.SetSeed(digestSeed)
	maphash.WriteComparable(&digest, s.Digest)
	groups := slices.Clone(s.Groups)
	for _, kind := range kinds {
		empty := groupOf(kind, nil)
		i, found := slices.BinarySearchFunc(groups, empty, func(a, b hook.Group) int {
			return cmp.Compare(a.Kind+"."+a.APIVersion, b.Kind+"."+b.APIVersion)
		})
		if !found {
			groups = slices.Insert(groups, i, empty)
			maphash.WriteComparable(&digest, kind)
		}
	}
	if len(groups) == len(s.Groups) {
		return s
	}
	return Snapshot{Groups: groups, Digest: max(digest.Sum64(), 1)}
}

// Snapshot returns the related objects of a parent. Parents with the same rules share it.
func (r *Registry) Snapshot(parent queue.Key) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.parents[parent]; a != nil {
		return a.takeSnapshot()
	}
	return Snapshot{}
}

// Watches returns the open watches, sorted by selection.
func (r *Registry) Watches() []cache.Stat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return statesOf(maps.Values(r.watches))
}

func statesOf(shared iter.Seq[*sharedWatch]) []cache.Stat {
	stats := []cache.Stat{}
	for t := range shared {
		stats = append(stats, t.view.Stat())
	}
	slices.SortFunc(stats, cache.CompareStats)
	return stats
}

// Close closes all watches. Enqueue is not called after it returns.
func (r *Registry) Close() {
	r.mu.Lock()
	if !r.closed {
		for _, t := range r.watches {
			t.cancelExpiry()
			t.close()
		}
	}
	r.closed = true
	r.mu.Unlock()
	r.running.Wait()
}

// sharedRule is a pattern with the objects it selects. Rule sets share it. The registry's lock guards it.
type sharedRule struct {
	pattern
	// key is the identity of the pattern, serial the order of creation.
	key    string
	serial uint64
	// ruleSets are the sets that contain the rule.
	ruleSets map[*ruleSet]struct{}

	// watches are none for a rule without names. listed means that all have synced, so that events update the objects.
	watches []*sharedWatch
	listed  bool
	// namespaceWatch watches the labels of namespaces; nil if they do not matter.
	namespaceWatch *sharedWatch
	// matchingNamespaces are the namespaces whose labels match.
	matchingNamespaces map[string]bool

	objects object.Sorted
}

// indexKeys returns the keys of the rule: if it selects namespaces by labels, for each of these namespaces.
func (r *sharedRule) indexKeys() []indexKey {
	if r.namespaceLabels == nil {
		return r.pattern.indexKeys()
	}
	var where []indexKey
	for name := range r.matchingNamespaces {
		where = append(where, selectorKeys(name, r.labels)...)
	}
	return where
}

func (r *sharedRule) selects(o *object.Object) bool {
	return r.matches(o) && (r.namespaceLabels == nil || r.matchingNamespaces[o.Namespace()])
}

// objectChanged updates an object and enqueues the parents if that makes a difference.
func (r *sharedRule) objectChanged(c change) {
	if c.current != nil && !r.selects(c.current) {
		c.current = nil
	}
	var before *object.Object
	if c.current != nil {
		before = r.objects.Put(c.current)
	} else {
		before = r.objects.Remove(c.object)
	}
	if before == c.current {
		return
	}
	r.invalidate()
	if before == nil || c.current == nil || before.Digest() != c.current.Digest() {
		r.enqueue(c.object)
	}
}

// namespaceChanged adds or removes the objects of a namespace whose labels changed.
func (r *sharedRule) namespaceChanged(c change) {
	name := c.object.Name()
	isMatching := c.current != nil && r.namespaceLabels.Matches(c.current.Labels())
	if isMatching == r.matchingNamespaces[name] {
		return
	}
	before := len(r.objects)
	if isMatching {
		r.addNamespace(name)
	} else {
		r.removeNamespace(name)
	}
	if len(r.objects) != before {
		r.invalidate()
		r.enqueue(c.object)
	}
}

func (r *sharedRule) addNamespace(namespace string) {
	r.matchingNamespaces[namespace] = true
	for _, t := range r.watches {
		t.index.add(r, selectorKeys(namespace, r.labels))
		for o := range t.view.All() {
			if o.Namespace() == namespace && r.selects(o) {
				r.objects.Put(o)
			}
		}
	}
}

func (r *sharedRule) removeNamespace(namespace string) {
	delete(r.matchingNamespaces, namespace)
	for _, t := range r.watches {
		t.index.remove(r, selectorKeys(namespace, r.labels))
	}
	r.objects = slices.DeleteFunc(r.objects, func(o *object.Object) bool { return o.Namespace() == namespace })
}

func (r *sharedRule) findNamespaces() {
	if r.namespaceLabels == nil || r.matchingNamespaces != nil {
		return
	}
	r.matchingNamespaces = map[string]bool{}
	for ns := range r.namespaceWatch.view.All() {
		if r.namespaceLabels.Matches(ns.Labels()) {
			r.matchingNamespaces[ns.Name()] = true
		}
	}
}

func (r *sharedRule) invalidate() {
	for a := range r.ruleSets {
		a.snapshot = nil
	}
}

// enqueue enqueues the parents that do not wait for a watch.
func (r *sharedRule) enqueue(changed *object.Object) {
	for a := range r.ruleSets {
		if a.synced {
			a.enqueue(changed)
		}
	}
}

// register adds the rule to the indexes of its watches, whose objects it has.
func (r *sharedRule) register() {
	if r.namespaceWatch != nil {
		r.namespaceWatch.index.add(r, selectorKeys("", r.namespaceLabels))
	}
	for _, t := range r.watches {
		t.index.add(r, r.indexKeys())
	}
	r.listed = true
	r.invalidate()
	for a := range r.ruleSets {
		a.checkSynced()
	}
}

func (r *sharedRule) close() {
	for _, t := range r.watches {
		t.index.remove(r, r.indexKeys())
		t.release(r)
	}
	if r.namespaceWatch != nil {
		r.namespaceWatch.index.remove(r, selectorKeys("", r.namespaceLabels))
		r.namespaceWatch.release(r)
	}
}

func (r *sharedRule) pendingWatches() []*sharedWatch {
	pending := slices.Clone(r.watches)
	if r.namespaceWatch != nil {
		pending = append(pending, r.namespaceWatch)
	}
	return slices.DeleteFunc(pending, func(t *sharedWatch) bool { return t.synced })
}

// digestSeed makes digests differ between processes.
var digestSeed = maphash.MakeSeed()

// ruleSet is the rules in a customize response. Parents with the same rules share it. The registry's lock guards it.
type ruleSet struct {
	registry *Registry
	key      string
	// rules are sorted by kind.
	rules   []*sharedRule
	parents map[queue.Key]struct{}
	// synced means that the watches of all rules have synced.
	synced bool
	// snapshot is nil if it has to be built.
	snapshot *Snapshot
	// eventID is the event for which the parents were enqueued last.
	eventID uint64
}

// compareKinds orders by "Kind.apiVersion", the name of a group in a request.
func compareKinds(a, b object.Resource) int {
	return cmp.Compare(a.Kind+"."+a.APIVersion(), b.Kind+"."+b.APIVersion())
}

// checkSynced updates synced, and enqueues the parents if it is true now.
func (a *ruleSet) checkSynced() {
	if a.synced || slices.ContainsFunc(a.rules, func(one *sharedRule) bool { return !one.listed }) {
		return
	}
	a.synced = true
	a.enqueue(nil)
}

// enqueue enqueues the parents once for an event.
func (a *ruleSet) enqueue(changed *object.Object) {
	if a.eventID == a.registry.eventID {
		return
	}
	a.eventID = a.registry.eventID
	for parent := range a.parents {
		a.registry.options.Enqueue(parent, changed)
	}
}

func (a *ruleSet) takeSnapshot() Snapshot {
	if a.snapshot != nil {
		return *a.snapshot
	}
	a.snapshot = &Snapshot{}
	if len(a.rules) == 0 {
		return *a.snapshot
	}
	var digest maphash.Hash
	digest.SetSeed(digestSeed)
	for rest := a.rules; len(rest) > 0; {
		kind, n := rest[0].resource, 1
		for n < len(rest) && compareKinds(rest[n].resource, kind) == 0 {
			n++
		}
		objects := objectsOf(rest[:n])
		a.snapshot.Groups = append(a.snapshot.Groups, groupOf(kind, objects))
		maphash.WriteComparable(&digest, kind)
		for _, o := range objects {
			maphash.WriteComparable(&digest, o.Digest())
		}
		rest = rest[n:]
	}
	a.snapshot.Digest = max(digest.Sum64(), 1)
	return *a.snapshot
}

// objectsOf merges the objects of rules. If an object is in several, the first counts.
func objectsOf(rules []*sharedRule) object.Sorted {
	if len(rules) == 1 {
		return rules[0].objects
	}
	all := slices.Concat(lists.Map(rules, func(one *sharedRule) object.Sorted { return one.objects })...)
	slices.SortStableFunc(all, object.CompareNames)
	return slices.CompactFunc(all, func(a, b *object.Object) bool { return object.CompareNames(a, b) == 0 })
}

func groupOf(resource object.Resource, objects object.Sorted) hook.Group {
	group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind, Objects: make([]hook.Entry, len(objects))}
	for i, o := range objects {
		group.Objects[i] = hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSONWithManagedFields()}
	}
	return group
}

// Equal rules and equal rule sets are stored once: thousands of parents with the same rules cost as much as one.

func (r *Registry) ruleSetFor(patterns []pattern) *ruleSet {
	rules := lists.Map(patterns, r.ruleFor)
	slices.SortFunc(rules, func(a, b *sharedRule) int {
		return cmp.Or(compareKinds(a.resource, b.resource), cmp.Compare(a.serial, b.serial))
	})
	rules = slices.Compact(rules)
	serials := make([]byte, 0, 8*len(rules))
	for _, one := range rules {
		serials = binary.BigEndian.AppendUint64(serials, one.serial)
	}
	key := string(serials)
	if a := r.ruleSets[key]; a != nil {
		return a
	}
	a := &ruleSet{registry: r, key: key, rules: rules, parents: map[queue.Key]struct{}{}}
	r.ruleSets[key] = a
	for _, one := range rules {
		one.ruleSets[a] = struct{}{}
	}
	a.checkSynced()
	return a
}

func (r *Registry) ruleFor(p pattern) *sharedRule {
	// Patterns that select the same have the same key.
	key := fmt.Sprintf("%v %q %t %q %q %v", p.resource, p.namespace, p.names == nil, p.names, p.labels, p.namespaceLabels)
	if one := r.rules[key]; one != nil {
		return one
	}
	r.nextSerial++
	one := &sharedRule{pattern: p, key: key, serial: r.nextSerial, ruleSets: map[*ruleSet]struct{}{}}
	r.rules[key] = one
	r.openWatches(one)
	return one
}

func (r *Registry) detach(parent queue.Key, former *ruleSet) {
	delete(former.parents, parent)
	if len(former.parents) > 0 {
		return
	}
	delete(r.ruleSets, former.key)
	for _, one := range former.rules {
		delete(one.ruleSets, former)
		if len(one.ruleSets) == 0 {
			delete(r.rules, one.key)
			one.close()
		}
	}
}

// index finds the rules that may select an object.
type index map[indexKey][]*sharedRule

func (x index) add(r *sharedRule, where []indexKey) {
	for _, p := range where {
		x[p] = append(x[p], r)
	}
}

func (x index) remove(r *sharedRule, where []indexKey) {
	for _, p := range where {
		x[p] = slices.DeleteFunc(x[p], func(other *sharedRule) bool { return other == r })
		if len(x[p]) == 0 {
			delete(x, p)
		}
	}
}

// of yields each rule that may select the object once.
func (x index) of(o *object.Object) iter.Seq[*sharedRule] {
	return func(yield func(*sharedRule) bool) {
		if o == nil {
			return
		}
		for p := range indexKeysOf(o) {
			for _, r := range x[p] {
				if !yield(r) {
					return
				}
			}
		}
	}
}
