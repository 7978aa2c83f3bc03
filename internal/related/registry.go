package related

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// namespaceSelection is the watch that says which labels namespaces have.
var namespaceSelection = cache.Selection{Resource: object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}, Metadata: true}

// catchUpInterval is how soon a watch is looked at again that is behind the one it is to
// replace.
const catchUpInterval = 100 * time.Millisecond

// errorCheckInterval is how often a watch is looked at that has yet to deliver.
const errorCheckInterval = time.Second

// Options of a Registry. Store, Resolve and Wake are required.
type Options struct {
	Store *cache.Cache
	Scope Scope
	// Managed has related objects come with metadata.managedFields.
	Managed bool
	// Resolve finds a kind as the API server serves it. It is asked each time a
	// rule names a kind that no other rule is about.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// Enqueue is told of a parent whose related objects are others than before. The
	// object is the one that changed, as it is or as it last was, or the
	// namespace that did; nil when there is no single one, as when all watches
	// that the parent's rules need have just delivered, or when one of those it
	// is Lacking turns out not to work. It must be quick and must not call the
	// Registry.
	Enqueue func(parent queue.Key, changed *object.Object)
	// IdleTimeout is how long a watch stays open that nobody needs; 30s if zero.
	IdleTimeout time.Duration
	// After calls a function after a time, on another goroutine, unless stop is
	// called before; time.AfterFunc if nil.
	After func(d time.Duration, do func()) (stop func() bool)
}

func (o Options) withDefaults() Options {
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 30*time.Second)
	if o.After == nil {
		o.After = func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }
	}
	return o
}

// Registry holds the rules of all parents of one controller. Its methods may be
// called by several goroutines at once; Set and Drop of one parent by one at a
// time.
type Registry struct {
	options Options
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	parents  map[queue.Key]*ruleSet
	ruleSets map[string]*ruleSet
	rules    map[string]*rule
	kinds    map[kindName]*kindRules
	watches  map[cache.Selection]*sharedWatch
	// behind are the rules that wait for a watch to catch up.
	behind map[*rule]struct{}
	// nextSerial numbers the rules, turn the events.
	nextSerial, eventID uint64
}

// New returns a registry without parents. It asks nothing of the API server
// before a rule does.
func New(o Options) *Registry {
	return &Registry{
		options:  o.withDefaults(),
		parents:  map[queue.Key]*ruleSet{},
		ruleSets: map[string]*ruleSet{},
		rules:    map[string]*rule{},
		kinds:    map[kindName]*kindRules{},
		watches:  map[cache.Selection]*sharedWatch{},
		behind:   map[*rule]struct{}{},
	}
}

// Set gives a parent these rules in place of its former ones. All of them are
// checked before one counts: after an error, which is a *RuleError, the former
// stay. That a kind is not served is such an error; it is over when Set is called
// again after the kind has appeared.
//
// Set does not wait for watches: see Lacking.
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
	requested.parents.add(parent)
	r.parents[parent] = requested
	if former != nil {
		r.detach(parent, former)
	}
	return nil
}

// Drop forgets a parent. Watches that nobody else needs are closed after a
// while.
func (r *Registry) Drop(parent queue.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if former := r.parents[parent]; former != nil && !r.closed {
		delete(r.parents, parent)
		r.detach(parent, former)
	}
}

// Pending lists the watches that the parent's rules need and that have not
// delivered yet. Until there is none, a hook must not be asked: it would take
// what it is not shown for not being there. Wake tells when the last of them has
// delivered.
func (r *Registry) Pending(parent queue.Key) []Watch {
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
	return statesOf(missing)
}

// Snapshot is what a hook is shown beside a parent and its children, at one moment.
type Snapshot struct {
	// Groups has one group for every kind that the rules name, also the empty
	// ones, with every object once. Groups and objects are sorted by what they
	// are called on the wire. They are shared and read-only.
	Groups []hook.Group
	// Digest is another one when the groups are others, but for resource
	// versions. It is stable within this process only, and 0 without rules.
	Digest uint64
}

// Snapshot returns what there is for a parent. It is cheap: what the same rules
// select is put together once, whoever asks.
func (r *Registry) Snapshot(parent queue.Key) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.parents[parent]; a != nil {
		return a.takeSnapshot()
	}
	return Snapshot{}
}

// Watch is the state of one watch.
type Watch struct {
	Selection cache.Selection
	// Objects is how many there are.
	Objects int
	// Synced says that it has delivered what there is.
	Synced bool
	// Err is nil while the watch works. It keeps trying.
	Err error
}

// Watches lists the open watches, sorted by selection.
func (r *Registry) Watches() []Watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[*sharedWatch]struct{}, len(r.watches))
	for _, t := range r.watches {
		all[t] = struct{}{}
	}
	return statesOf(all)
}

func statesOf(taps map[*sharedWatch]struct{}) []Watch {
	watches := make([]Watch, 0, len(taps))
	for t := range taps {
		watches = append(watches, t.state())
	}
	slices.SortFunc(watches, func(a, b Watch) int { return cmp.Compare(a.Selection.String(), b.Selection.String()) })
	return watches
}

// Close closes all watches. Wake is not called any more when it has returned.
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
