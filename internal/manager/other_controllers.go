package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// A run of `setpoint dev --context` has controllers of its own, which every other Setpoint ignores. So it is the
// run that must see controllers of others with the same objects, and yield to them.

const (
	// otherInterval is how often a dev run looks for controllers of others.
	otherInterval = 5 * time.Second
	// notRunningInterval is how often one that does not run is compiled again.
	notRunningInterval = time.Minute
)

// otherController is a controller object that is not of this dev run.
type otherController struct {
	*compile.Compiled
	managedBy string
	// run is that of another `setpoint dev --context`; "" for the controllers of the cluster.
	run, rank string
}

// refusal says what to do about a controller of the same objects.
func (c otherController) refusal() *compile.Refusal {
	by, remedy := "the cluster has", "suspend that one (spec.suspend: true) or delete it"
	if c.managedBy != "" {
		by = "the Setpoint with the Lease " + c.managedBy + " manages"
	}
	if c.run != "" {
		by = "another run of setpoint dev, with the ConfigMap and the Lease " + c.managedBy + ", has created"
		remedy = "stop that run and remove what it created (setpoint dev --context NAME --cleanup), also if it was killed"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController,
		Err: fmt.Errorf("%s the controller %s of the same objects, and both would reconcile them: %s, "+
			"give each a labelSelector that excludes the other's objects, or use another cluster or namespace", by, c.Name(), remedy)}
}

// otherControllers returns the compiled controllers of the cluster, those that are suspended aside. Kinds
// that are not installed, or that the user may not list, have none.
func (m *Manager) otherControllers(ctx context.Context) ([]otherController, error) {
	var all []otherController
	seen := map[string]*compiledOther{}
	for _, kind := range compile.Kinds() {
		stored, err := apply.New(m.client, apply.Options{DryRun: true}).List(ctx, kind.Resource, "", "")
		if request.IsForbiddenOrNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range stored {
			id := fmt.Sprint(o.UID(), o.Generation(), o.Labels().Get(setpoint.LabelDevRun), storedStatus(o).ManagedBy)
			if seen[id] = m.others.known[id]; seen[id] == nil || seen[id].isDue() {
				seen[id] = &compiledOther{at: time.Now()}
				seen[id].controller, seen[id].runs = m.otherController(ctx, kind, o)
			}
			if seen[id].runs && !m.ignores(o) {
				all = append(all, seen[id].controller)
			}
		}
	}
	m.others.known = seen
	return all, nil
}

// compiledOther is the result of compiling a controller of others, which takes requests to the API server.
type compiledOther struct {
	controller otherController
	runs       bool
	at         time.Time
}

// isDue reports whether to compile it again. One that does not run may do so once its kinds are served.
func (c *compiledOther) isDue() bool { return !c.runs && time.Since(c.at) > notRunningInterval }

// ignores reports whether a controller object is of this run, or goes.
func (m *Manager) ignores(o *object.Object) bool {
	run := o.Labels().Get(setpoint.LabelDevRun)
	return run != "" && run == m.options.DevRun || o.Deleting()
}

func (m *Manager) otherController(ctx context.Context, kind compile.Kind, o *object.Object) (otherController, bool) {
	other := otherController{run: o.Labels().Get(setpoint.LabelDevRun), rank: rankOf(o)}
	if m.ignores(o) {
		return other, false
	}
	env, managedBy := m.compileEnvironment(), storedStatus(o).ManagedBy
	env.Namespaces, env.Store = nil, nil // It is only compared: its code may be what another Setpoint cannot read now.
	if managedBy != nil {
		other.managedBy, env.Namespaces = managedBy.Lease, managedBy.Namespaces
	}
	compiled, err := kind.Compile(ctx, o, env)
	if err != nil {
		return other, false // It does not run either.
	}
	compiled.Release()
	other.Compiled = compiled
	return other, !compiled.Suspended
}

// otherControllers are those that a dev run has seen last.
type otherControllers struct {
	// known are compiled controllers by what they were compiled from. One goroutine uses them.
	known map[string]*compiledOther

	mu  sync.Mutex
	all []otherController
}

func (o *otherControllers) set(all []otherController) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = all
}

// check refuses a controller of a dev run if others have the same objects. Of two runs, the older controller goes
// on; all others do not know of those of runs.
func (o *otherControllers) check(rank string, compiled *compile.Compiled) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.all, func(other otherController) bool {
		return (other.run == "" || other.rank < rank) && conflicts.Overlap(other.Compiled, compiled)
	})
	if i < 0 {
		return nil
	}
	return o.all[i].refusal()
}

// watchOthers looks for the controllers of others in a dev run, and enqueues its own that have to yield, or need
// not any more.
func (cs *controllerSet) watchOthers(ctx context.Context) {
	if cs.manager.options.DevRun == "" {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		all, err := cs.manager.otherControllers(ctx)
		if err != nil {
			cs.manager.log.Debug("controllers of others not listed", "error", failure.Text(err))
			return
		}
		cs.manager.others.set(all)
		for _, key := range cs.affectedByOthers() {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController"})
		}
	}, otherInterval)
}

// affectedByOthers returns the running controllers that must yield, and those that yield now.
func (cs *controllerSet) affectedByOthers() []queue.Key {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var keys []queue.Key
	for key, e := range cs.entries {
		if e.refused(setpoint.ReasonConflictingController) || e.running != nil &&
			cs.manager.others.check(e.rank, e.running.Compiled) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}
