package related

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Options of a Registry. Store, Resolve and Wake are required.
type Options struct {
	Store *store.Store
	Scope Scope
	// Resolve finds a kind as the API server serves it. It is asked again each
	// time a rule names a kind that is not being watched.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// Wake is told of a parent whose related objects are others than before. The
	// object is the one that changed, as it is now or as it last was; nil when
	// the parent's rules have just come to be Synced. It must be quick and must
	// not call the Registry.
	Wake func(parent queue.Key, changed *object.Object)
	// Linger is how long a watch stays open that nobody needs; 30s if zero.
	Linger time.Duration
	// After calls a function after a time, unless stop is called before;
	// time.AfterFunc if nil.
	After func(d time.Duration, do func()) (stop func() bool)
}

// Registry holds the rules of all parents of one controller. Its methods may be
// called by several goroutines at once, Set and Drop for one parent by one at a
// time.
type Registry struct {
	options Options
}

// New returns a registry without parents. It asks nothing of the API server
// before a rule does.
func New(o Options) *Registry { return &Registry{options: o} }

// Set gives a parent these rules in place of its former ones. All of them are
// checked before one counts: after an error, which is a *RuleError, or that of
// the context, the former stay. A kind that is not served is such an error and
// goes away by itself when Set is called again after it has appeared.
//
// Set does not wait for watches: see Lacking.
func (r *Registry) Set(ctx context.Context, parent queue.Key, rules []hook.RelatedRule) error {
	return nil
}

// Drop forgets a parent. Watches that nobody else needs are closed after a
// while.
func (r *Registry) Drop(parent queue.Key) {}

// Lacking lists the watches that the parent's rules need and that have not
// delivered yet. Until there is none, a hook must not be asked: it would take
// what it is not shown for not being there. Wake tells when the last of them has
// delivered.
func (r *Registry) Lacking(parent queue.Key) []Watch { return nil }

// Shown is what a hook is shown beside a parent and its children, at one moment.
type Shown struct {
	// Groups has one group for every kind that the rules name, also the empty
	// ones, sorted by kind, each with every object once, sorted by namespace and
	// name. It is shared and read-only.
	Groups []hook.Group
	// Digest is another one when the groups are others, but for resource
	// versions. It is stable within this process only, and 0 without rules.
	Digest uint64
}

// Shown returns what there is for a parent. It is cheap: what the same rules
// select is put together once, whoever asks.
func (r *Registry) Shown(parent queue.Key) Shown { return Shown{} }

// Watch is the state of one watch.
type Watch struct {
	Selection store.Selection
	// Objects is how many there are.
	Objects int
	Synced  bool
	// Err is nil while the watch works. It keeps trying.
	Err error
}

// Watches lists the open watches, sorted by selection.
func (r *Registry) Watches() []Watch { return nil }

// Close closes all watches and forgets all parents. Wake is not called any more
// when it has returned.
func (r *Registry) Close() {}

// RuleError is a fault in a rule of a customize reply.
type RuleError struct {
	// Path is the field, such as "relatedResources[1].namespace".
	Path string
	// Problem says what is wrong with it, and what to do.
	Problem string
	// Err is what finding the rule's kind ended with; nil where the rule itself
	// is wrong.
	Err error
}

func (e *RuleError) Error() string {
	if e.Err == nil {
		return e.Path + ": " + e.Problem
	}
	return e.Path + ": " + e.Problem + ": " + e.Err.Error()
}

func (e *RuleError) Unwrap() error { return e.Err }
