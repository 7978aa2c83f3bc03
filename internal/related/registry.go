package related

import (
	"cmp"
	"context"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
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

// Registry has the rules of all parents of one controller. It is safe for concurrent use, except
// for Set and Drop of the same parent.
type Registry struct {
	options Options
	// after is time.AfterFunc, unless a test has other timers.
	after   func(d time.Duration, do func()) (stop func() bool)
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	parents  map[queue.Key]*ruleSet
	ruleSets map[string]*ruleSet
	rules    map[string]*rule
	kinds    map[kindName]*usedKind
	watches  map[cache.Selection]*sharedWatch
	// nextSerial numbers the rules, eventID the events.
	nextSerial, eventID uint64
}

// New returns an empty registry. It sends no request before the first rule.
func New(o Options) *Registry {
	return &Registry{
		options:  o,
		after:    func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop },
		parents:  map[queue.Key]*ruleSet{},
		ruleSets: map[string]*ruleSet{},
		rules:    map[string]*rule{},
		kinds:    map[kindName]*usedKind{},
		watches:  map[cache.Selection]*sharedWatch{},
	}
}

// Set replaces the rules of a parent. It validates all of them first: after an error, which is a *RuleError, the former
// rules stay. A kind that is not served is such an error, so call Set again later.
//
// Set does not wait for watches: see Pending.
func (r *Registry) Set(ctx context.Context, parent queue.Key, rules []hook.RelatedRule) error {
	patterns, err := r.validate(ctx, parent.Namespace, rules)
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
	// Groups has a group for each kind in the rules, even without objects. Groups and objects are
	// sorted as in the request. They are shared and read-only.
	Groups []hook.Group
	// Digest changes with the content of the groups, but not with resource versions. It is valid in
	// this process only, and 0 without rules.
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
